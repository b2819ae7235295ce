"""Ways of writing numbers and dates as text besides the plain ones: amounts with a currency, days before months.

One way must do for all cells of a column. Some cells can be read in two ways, such as 06/03/2023 and 1,234: the others tell
which one is meant, or nothing does.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

import numpy as np

from bochner.arrays import Array
from bochner.tables.cells import ISO, NUMBER, as_numbers, as_times, dates_of

CODES = (
    "USD EUR GBP CHF JPY CNY INR AUD CAD NZD SEK NOK DKK ISK PLN CZK HUF RON BGN TRY ILS RUB UAH BRL MXN CLP COP ARS ZAR "
    "KRW SGD HKD TWD THB IDR MYR PHP VND AED SAR EGP NGN KES"
)
SIGN = rf"(?:(?:US|CA|AU|NZ|HK|S|R|C|A)?\$|[€£¥₹₽₩₺₪₴฿₫₦₱¢]|zł|[Kk]r\.?|Fr\.?|Kč|Ft|lei|%|{'|'.join(CODES.split())})"
"""Signs and codes of currencies, and per cent."""
APART = r"[ '\u2019\u00a0\u202f]"
NUMERALS = {
    decimal: re.compile(
        rf"(?P<minus>\(|[-\u2212])?\+?(?P<before>{SIGN})?[ \u00a0]?(?P<minus2>[-\u2212])?"
        rf"(?P<number>\d{{1,3}}(?:(?P<apart>{APART}|{re.escape(other)})\d{{3}}(?:(?P=apart)\d{{3}})*)(?:{re.escape(decimal)}\d+)?"
        rf"|\d+(?:{re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+)[ \u00a0\u202f]?(?P<after>{SIGN})?\)?",
        re.ASCII,
    )
    for decimal, other in ((".", ","), (",", "."))
}
"""Numbers with groups of three digits, by what stands before their fraction."""
MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
CLOCK = r"(?:,?[ T](?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?)?(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?)?"
DAYS = (
    re.compile(rf"(?P<first>\d{{1,2}})(?P<apart>[/.-])(?P<second_>\d{{1,2}})(?P=apart)(?P<year>\d{{4}}){CLOCK}"),
    re.compile(rf"(?P<year>\d{{4}})(?P<apart>[/.])(?P<month>\d{{1,2}})(?P=apart)(?P<day>\d{{1,2}}){CLOCK}"),
    re.compile(rf"(?P<day>\d{{1,2}})\.?[ -](?P<name>[A-Za-z]{{3,9}})\.?,?[ -](?P<year>\d{{4}}){CLOCK}"),
    re.compile(rf"(?P<name>[A-Za-z]{{3,9}})\.? (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){CLOCK}"),
)
"""Dates with a year of four digits; months by their number or their English name."""


@dataclass(frozen=True)
class Plain:
    """Numbers as most programs write them."""

    def read(self, values: Array) -> Array | None:
        """Cleaned text (n,) as numbers, NaN where missing; None where one is none."""
        return as_numbers(values)


@dataclass(frozen=True)
class Iso:
    """Dates of ISO 8601."""

    def read(self, values: Array) -> Array | None:
        """Cleaned text (n,) as times, NaT where missing; None where one is none."""
        return dates_of(values)


@dataclass(frozen=True)
class Amounts:
    """Numbers with a sign of a currency (or per cent), or with groups of three digits, and ``decimal`` before the fraction.

    ``sign`` is what cells may have beside their number; None: whatever the first one has, as long as it is the same in all.
    """

    decimal: str
    sign: str | None = None

    def read(self, values: Array) -> Array | None:
        """Cleaned text (n,) as numbers, NaN where missing; None where one is none, or signs differ."""
        signs = {self.sign, ""} if self.sign is not None else set()
        known: dict[str | None, float] = {None: np.nan}
        for value in values:
            if value in known:
                continue
            found = _amount(value, self.decimal)
            if found is None:
                return None
            sign = (found["before"] or found["after"] or "").strip()
            signs.add(sign)
            if len(signs - {""}) > 1:
                return None
            digits = re.sub(rf"[^\d{re.escape(self.decimal)}]", "", found["number"]).replace(self.decimal, ".")
            known[value] = float(digits) * (-1.0 if found["minus"] or found["minus2"] else 1.0)
        return np.array([known[value] for value in values], dtype=np.float64)

    def sign_in(self, values: Array) -> str:
        """The sign that cells of this way have; "" where none has one."""
        for value in values:
            if value is not None and (found := NUMERALS[self.decimal].fullmatch(value)):
                sign = str(found["before"] or found["after"] or "")
                if sign:
                    return sign.strip()
        return ""


def _amount(text: str, decimal: str) -> re.Match[str] | None:
    """The parts of a number with groups of digits or a sign; None where text is none."""
    found = NUMERALS[decimal].fullmatch(text)
    if found is None or (found["minus"] == "(") != text.endswith(")") or (found["before"] and found["after"]):
        return None
    return found


@dataclass(frozen=True)
class Dates:
    """Dates such as 31/5/2024 ("dmy") or 5/31/2024 ("mdy"), and those without doubt: 31.5.2024, 31 May 2024, ISO 8601."""

    order: str

    def read(self, values: Array) -> Array | None:
        """Cleaned text (n,) as times, NaT where missing; None where one is none."""
        known: dict[str | None, datetime.datetime | None] = {None: None}
        for value in values:
            if value not in known:
                known[value] = self._read(value)
                if known[value] is None:
                    return None
        return as_times([known[value] for value in values])

    def _read(self, text: str) -> datetime.datetime | None:
        if ISO.fullmatch(text):
            return _iso(text)
        found = next((match for pattern in DAYS if (match := pattern.fullmatch(text))), None)
        if found is None:
            return None
        parts = found.groupdict()
        if "first" in parts:
            if parts["apart"] == "." and self.order == "mdy":
                return None  # dots stand in dates that begin with the day
            day, month = int(parts["first"]), int(parts["second_"])
            if self.order == "mdy":
                day, month = month, day
        else:
            day = int(parts["day"])
            month = int(parts["month"]) if "month" in parts else _month(parts["name"])
        hour = int(parts["hour"] or 0)
        if parts["half"]:
            hour = hour % 12 + 12 * (parts["half"].lower() == "p")
        try:
            return datetime.datetime(
                int(parts["year"]), month, day, hour, int(parts["minute"] or 0), int(parts["second"] or 0)
            )
        except ValueError:  # the 31st of June
            return None


def _iso(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:  # the 31st of June
        return None


def _month(name: str) -> int:
    """The number of an English month, short or whole; zero, which no month has, for others."""
    low = name.lower().removesuffix("t") if name.lower() == "sept" else name.lower()
    return next((i for i, month in enumerate(MONTHS, start=1) if low in (month, month[:3])), 0)


Way = Plain | Iso | Amounts | Dates
WAYS: tuple[Way, ...] = (Plain(), Iso(), Amounts("."), Amounts(","), Dates("dmy"), Dates("mdy"))
"""All ways, the plain ones first."""


def agree(one: Array, other: Array) -> bool:
    """Whether two readings of the same cells are the same."""
    return bool(np.array_equal(one, other, equal_nan=True))


def is_number(text: str) -> bool:
    """Whether cleaned text is a number in any of these ways, with a point or a comma before its fraction."""
    return NUMBER.fullmatch(text.replace(",", ".")) is not None or any(_amount(text, decimal) for decimal in NUMERALS)


def _has_comma(text: str) -> bool:
    """Whether a number has a comma before its fraction, which cannot be one of thousands."""
    return "," in text and NUMBER.fullmatch(text.replace(",", ".")) is not None and _amount(text, ".") is None


@dataclass
class Tally:
    """How many cells of text are numbers, how many are not, and the first ones that keep a column from being read."""

    n_numbers: int = 0
    n_others: int = 0
    other: str | None = None
    comma: str | None = None
    """The first number with a comma before its fraction."""

    def see(self, text: str, n_cells: int = 1) -> None:
        """So many more cells of the same text."""
        if not is_number(text):
            self.n_others += n_cells
            self.other = text if self.other is None else self.other
            return
        self.n_numbers += n_cells
        if self.comma is None and _has_comma(text):
            self.comma = text

    def add(self, later: Tally) -> None:
        """The cells of another one, which come after these."""
        self.n_numbers, self.n_others = self.n_numbers + later.n_numbers, self.n_others + later.n_others
        self.other = later.other if self.other is None else self.other
        self.comma = later.comma if self.comma is None else self.comma

    def in_words(self, one: str, many: str) -> str | None:
        """Why most cells being numbers is not enough, and what to do (``one`` or ``many``) with those that are none.

        None: most are no numbers, or all are, and it is something else that keeps them from being read.
        """
        n_cells = self.n_numbers + self.n_others
        if self.n_others == 0 and self.comma is not None:
            return (
                f"all {n_cells:,} cells are numbers, but some have a comma before the fraction, such as {self.comma!r}: "
                f"write numbers with a point, such as {self.comma.replace(',', '.')}."
            )
        if self.other is None or self.n_numbers <= self.n_others:
            return None
        most, example = f"{self.n_numbers:,} of {n_cells:,} cells are numbers", repr(self.other[:40])
        if self.n_others == 1:
            return f"{most}, and {example} is not: {one}, or make it a number."
        return f"{most}, and {self.n_others:,} are not, such as {example}: {many}, or make them numbers."
