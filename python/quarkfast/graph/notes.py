"""What preparation did differently from what was asked, kept with a model until its summary is made."""

from __future__ import annotations

from quarkfast.deferred import ir

__all__ = ["add_note", "drop_note", "notes_of"]

_NOTES = "quarkfast.notes"


def add_note(model: ir.Model, note: str) -> None:
    """Has the summary of `model` say `note`, a sentence, once."""
    if note not in notes_of(model):
        model.meta[_NOTES] = (*notes_of(model), note)


def drop_note(model: ir.Model, note: str) -> None:
    """Takes back a sentence that a later step has made untrue."""
    model.meta[_NOTES] = tuple(each for each in notes_of(model) if each != note)


def notes_of(model: ir.Model) -> tuple[str, ...]:
    """Returns what there is to say about `model`, in the order in which it happened."""
    notes: tuple[str, ...] = model.meta.get(_NOTES, ())
    return notes
