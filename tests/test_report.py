"""Pages of reports: text is escaped, tables and code are what they say."""

from bochner.report import Code, Figure, Link, Page, Section, Table, render

PNG = b"\x89PNG\r\n\x1a\n"


def body(*blocks):
    return render(Page("A page", sections=[Section("All", blocks)])).partition("</style>")[2]


def test_code_is_kept_as_it_is_and_escaped():
    assert '<pre tabindex="0"><code>if a &lt; b:\n    go()</code></pre>' in body(Code("if a < b:\n    go()"))


def test_a_link_leads_to_another_file():
    assert '<p><a href="a&amp;b.html">more &gt;</a></p>' in body(Link("more >", "a&b.html"))


def test_numbers_are_set_to_the_right_but_not_in_prose():
    assert '<td class="number">0.5</td>' in body(Table(["a"], [[0.5]]))
    prose = body(Table(["a"], [[0.5]], prose=True))
    assert "<td>0.5</td>" in prose
    assert 'class="prose"' in prose
    assert "class=number" not in prose


def test_a_header_without_names_is_left_out():
    assert "<thead>" not in body(Table(["", ""], [["a", "b"]]))
    assert "<thead>" in body(Table(["", "b"], [["a", "b"]]))


def test_figures_say_how_much_room_they_want():
    assert '<figure class="wide">' in body(Figure(PNG, "wide", dark=PNG, wide=True))
    assert '<figure class="small paper">' in body(Figure(PNG, "small", small=True))
