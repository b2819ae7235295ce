"""Hostile but legal data: what they are (``cases``), who is asked (``estimators``), and what is right (``judge``)."""
