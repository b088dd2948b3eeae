"""Office: spreadsheets and mail, as state machines and as real files."""

import mailbox
import re
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any, NamedTuple

from openpyxl import Workbook, load_workbook
from openpyxl.utils import coordinate_to_tuple, get_column_letter

TITLE = "As of today"
NEWCOMER = "Newsletter"


class Grid(NamedTuple):
    """A sheet that is open, and its rows when they were last saved."""

    rows: tuple[tuple[Any, ...], ...]
    cursor: tuple[int, int] | None
    held: Any
    saved: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Sheet:
    """The state machine of a spreadsheet: a header, then one item a row; a title may come above.

    ``at B3`` and ``find Lamp Qty`` select a cell; ``type``, ``add``, ``copy`` and ``paste`` work
    on it; ``remove`` takes its row; ``append``, ``sort`` and ``total`` need none; ``save``.
    """

    table: tuple[tuple[Any, ...], ...]

    def start(self, *, changed):
        title = ((TITLE, *[None] * (len(self.table[0]) - 1)),) if changed else ()
        rows = (*title, *self.table)
        return Grid(rows, None, None, rows)

    def twin(self, action):
        kind, *names = action.split()
        if kind == "find":
            row, column = cell_of(self.table, *names)
            return f"at {get_column_letter(column + 1)}{row + 1}"
        if kind == "at":
            row, column = coordinate_to_tuple(names[0])
            return f"find {self.table[row - 1][0]} {self.table[0][column - 1]}"
        return None

    def after(self, state, action):
        kind, *given = action.split()
        rows, cursor, held = state.rows, state.cursor, state.held
        if kind == "save":
            return state._replace(saved=rows)
        if kind == "at":
            row, column = coordinate_to_tuple(given[0])
            return state._replace(cursor=(row - 1, column - 1))
        if kind == "find":
            found = cell_of(rows, *given)
            return state._replace(cursor=found) if found else state
        if kind in LAYING:
            return state._replace(rows=laid(rows, kind, given), cursor=None)
        if cursor is None or cursor[0] >= len(rows):
            return state
        old = rows[cursor[0]][cursor[1]]
        if kind == "copy":
            return state._replace(held=old)
        if kind == "remove":
            return state._replace(rows=(*rows[: cursor[0]], *rows[cursor[0] + 1 :]), cursor=None)
        if kind == "add" and not isinstance(old, int):
            return state
        new = held if kind == "paste" else parsed(given, old if kind == "add" else 0)
        row = list(rows[cursor[0]])
        row[cursor[1]] = new
        return state._replace(rows=(*rows[: cursor[0]], tuple(row), *rows[cursor[0] + 1 :]))

    def facts(self, state):
        """Return the saved table without its title, formulas worked out."""
        top = top_of(state.saved)
        table = () if top is None else state.saved[top:]
        return tuple(tuple(worked_out(state.saved, cell) for cell in row) for row in table)


LAYING = ("append", "sort", "total")


def laid(rows, kind, given):
    """Return rows with one more, in order of a column, or with the total of a column."""
    if kind == "append":
        return (*rows, tuple(parsed([one]) for one in given))
    top = top_of(rows)
    if top is None or given[0] not in rows[top]:
        return rows
    column = rows[top].index(given[0])
    if kind == "sort":
        body = sorted(rows[top + 1 :], key=lambda row: (str(type(row[column])), row[column] or 0))
        return (*rows[: top + 1], *body)
    letter = get_column_letter(column + 1)
    row = ["Total", *[None] * (len(rows[top]) - 1)]
    row[column] = f"=SUM({letter}{top + 2}:{letter}{len(rows)})"
    return (*rows, tuple(row))


def parsed(given, old=0):
    """Return what was typed: a number added to the old one, or a word."""
    if not given:
        return None
    return old + int(given[0]) if given[0].lstrip("-").isdigit() else given[0]


def top_of(rows):
    """Return the row of the header."""
    heads = ("Item", "Name")
    return next((at for at, row in enumerate(rows) if row and row[0] in heads), None)


def cell_of(rows, name, head):
    """Return row and column of a cell, from 0, or None."""
    top = top_of(rows)
    names = [row[0] for row in rows]
    if top is None or head not in rows[top] or name not in names:
        return None
    return names.index(name), rows[top].index(head)


def worked_out(rows, value):
    match = re.fullmatch(r"=SUM\(([A-Z]+)(\d+):\1(\d+)\)", str(value))
    if not match:
        return value
    column = coordinate_to_tuple(match[1] + "1")[1] - 1
    cells = [row[column] for row in rows[int(match[2]) - 1 : int(match[3])]]
    return sum(cell for cell in cells if isinstance(cell, int))


class RealSheet:
    """The same actions on a workbook in a folder."""

    def __init__(self, world, folder, *, changed):
        self.path = Path(folder) / "book.xlsx"
        book = Workbook()
        for row in world.table:
            book.active.append(row)
        if changed:
            book.active.insert_rows(1)
            book.active["A1"] = TITLE
        book.save(self.path)
        self.book, self.cursor, self.held = load_workbook(self.path), None, None
        self.saved = rows_of(self.book)

    def state(self):
        cursor = self.cursor and tuple(at - 1 for at in self.cursor)
        return Grid(rows_of(self.book), cursor, self.held, self.saved)

    def step(self, action):
        kind, *given = action.split()
        sheet = self.book.active
        if kind == "save":
            self.book.save(self.path)
            self.saved = rows_of(load_workbook(self.path))
        elif kind == "at":
            self.cursor = coordinate_to_tuple(given[0])
        elif kind == "find":
            self.cursor = self._found(sheet, *given) or self.cursor
        elif kind in LAYING:
            getattr(self, f"_{kind}")(sheet, given)
            self.cursor = None
        elif self.cursor and self.cursor[0] <= sheet.max_row:
            self._work(sheet, sheet.cell(*self.cursor), kind, given)

    def _work(self, sheet, cell, kind, given):
        if kind == "copy":
            self.held = cell.value
        elif kind == "paste":
            cell.value = self.held
        elif kind == "type":
            cell.value = int(given[0]) if given[0].isdigit() else given[0]
        elif kind == "add" and isinstance(cell.value, int):
            cell.value += int(given[0])
        elif kind == "remove":
            sheet.delete_rows(cell.row)
            self.cursor = None

    def _head(self, sheet):
        return next((cell.row for cell in sheet["A"] if cell.value in ("Item", "Name")), None)

    def _column(self, sheet, head):
        row = self._head(sheet)
        cells = sheet[row] if row else ()
        return next((cell.column for cell in cells if cell.value == head), None)

    def _found(self, sheet, name, head):
        row = next((cell.row for cell in sheet["A"] if cell.value == name), None)
        column = self._column(sheet, head)
        return (row, column) if row and column else None

    def _append(self, sheet, given):
        sheet.append([int(one) if one.isdigit() else one for one in given])

    def _sort(self, sheet, given):
        column = self._column(sheet, given[0])
        if column is None:
            return
        first = self._head(sheet) + 1
        values = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=first)]
        values.sort(key=lambda row: (str(type(row[column - 1])), row[column - 1] or 0))
        for row, new in zip(sheet.iter_rows(min_row=first), values, strict=True):
            for cell, value in zip(row, new, strict=True):
                cell.value = value

    def _total(self, sheet, given):
        column = self._column(sheet, given[0])
        if column is None:
            return
        letter, last = get_column_letter(column), sheet.max_row
        sheet.cell(last + 1, 1).value = "Total"
        formula = f"=SUM({letter}{self._head(sheet) + 1}:{letter}{last})"
        sheet.cell(last + 1, column).value = formula


def rows_of(book):
    return tuple(book.active.iter_rows(values_only=True))


class Mails(NamedTuple):
    """Messages as (subject, folder, flags), newest first; the selected one; replies by folder."""

    messages: tuple[tuple[str, str, str], ...]
    selected: str | None
    replies: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Mail:
    """The state machine of a mailbox; a message may have arrived on top.

    ``pick 2`` and ``find Invoice`` select a message of the inbox; ``move``, ``flag``, ``read`` and
    ``reply`` work on it; a reply is a draft until ``send``.
    """

    subjects: tuple[str, ...]

    def start(self, *, changed):
        subjects = ((NEWCOMER,) if changed else ()) + self.subjects
        return Mails(tuple((one, "INBOX", "") for one in subjects), None, ())

    def twin(self, action):
        kind, *given = action.split()
        if kind == "find":
            return f"pick {[given[0] in one for one in self.subjects].index(True) + 1}"
        if kind == "pick":
            return f"find {self.subjects[int(given[0]) - 1].split()[0]}"
        return None

    def after(self, state, action):
        kind, *given = action.split()
        inbox = [subject for subject, folder, _ in state.messages if folder == "INBOX"]
        if kind == "pick":
            place = int(given[0]) - 1
            return state._replace(selected=inbox[place]) if place < len(inbox) else state
        if kind == "find":
            hit = next((subject for subject in inbox if given[0] in subject), state.selected)
            return state._replace(selected=hit)
        if kind == "send":
            sent = tuple((to, text, "Sent") for to, text, _ in state.replies)
            return state._replace(replies=tuple(sorted(sent)))
        if state.selected is None:
            return state
        if kind == "reply":
            replies = (*state.replies, (state.selected, given[0], "Drafts"))
            return state._replace(replies=tuple(sorted(replies)))
        mark = {"flag": "F", "read": "S"}.get(kind, "")
        messages = tuple(
            (subject, given[0] if kind == "move" else folder, "".join(sorted({*flags, *mark})))
            if subject == state.selected
            else (subject, folder, flags)
            for subject, folder, flags in state.messages
        )
        return state._replace(
            messages=messages, selected=None if kind == "move" else state.selected
        )

    def facts(self, state):
        """Return the messages, but for one that arrived and was left alone, and what was sent."""
        messages = [one for one in state.messages if one != (NEWCOMER, "INBOX", "")]
        return tuple(messages), tuple(one for one in state.replies if one[2] == "Sent")


class RealMail:
    """The same actions on a Maildir in a folder."""

    def __init__(self, world, folder, *, changed):
        self.box = mailbox.Maildir(Path(folder) / "mail", create=True)
        subjects = ((NEWCOMER,) if changed else ()) + world.subjects
        for age, subject in enumerate(subjects):
            self.box.add(written(subject, f"{100 - age}@local"))
        self.selected = None

    def _folder(self, name):
        if name == "INBOX":
            return self.box
        return self.box.get_folder(name) if name in self.box.list_folders() else None

    def _listed(self):
        """Return (folder, key, message) of all, newest first."""
        names = ["INBOX", *self.box.list_folders()]
        found = [(name, *item) for name in names for item in self._folder(name).items()]
        return sorted(found, key=lambda one: -int(one[2]["Message-ID"].split("@")[0]))

    def state(self):
        messages, replies = [], []
        for folder, _, mail in self._listed():
            if "In-Reply-To" in mail:
                text = mail.get_payload().strip()
                replies.append((mail["Subject"].removeprefix("Re: "), text, folder))
            else:
                messages.append((mail["Subject"], folder, mail.get_flags()))
        return Mails(tuple(messages), self.selected, tuple(sorted(replies)))

    def step(self, action):
        kind, *given = action.split()
        listed = self._listed()
        inbox = [mail["Subject"] for folder, _, mail in listed if folder == "INBOX"]
        if kind == "pick":
            self.selected = (inbox[int(given[0]) - 1 :] or [self.selected])[0]
        elif kind == "find":
            hits = [subject for subject in inbox if given[0] in subject]
            self.selected = (hits or [self.selected])[0]
        elif kind == "send":
            for folder, key, mail in listed:
                if folder == "Drafts":
                    self._put(mail, "Sent")
                    self._folder(folder).remove(key)
        elif self.selected is not None:
            chosen = next(one for one in listed if one[2]["Subject"] == self.selected)
            self._work(*chosen, kind, given)

    def _work(self, folder, key, mail, kind, given):
        if kind == "reply":
            answer = written(f"Re: {mail['Subject']}", "0@local", given[0])
            answer["In-Reply-To"] = mail["Message-ID"]
            self._put(answer, "Drafts")
        elif kind == "move":
            self.selected = None
            if given[0] != folder:
                self._put(mail, given[0])
                self._folder(folder).remove(key)
        else:
            mail.add_flag({"flag": "F", "read": "S"}[kind])
            self._folder(folder)[key] = mail

    def _put(self, mail, folder):
        (self._folder(folder) or self.box.add_folder(folder)).add(mail)


def written(subject, number, text="Hello"):
    mail = EmailMessage()
    mail["From"], mail["To"] = "ann@example.org", "me@example.org"
    mail["Subject"], mail["Message-ID"] = subject, number
    mail.set_content(text)
    return mail


WORLDS = {
    "stock": Sheet(
        (
            ("Item", "Qty", "Price", "Shelf"),
            ("Lamp", 8, 30, "A1"),
            ("Desk", 3, 120, "B2"),
            ("Chair", 11, 45, "B1"),
            ("Vase", 2, 25, "A2"),
            ("Rug", 5, 80, "C1"),
        )
    ),
    "budget": Sheet(
        (
            ("Item", "Plan", "Spent", "Owner"),
            ("Rent", 900, 900, "Ann"),
            ("Power", 120, 140, "Ben"),
            ("Travel", 300, 210, "Cleo"),
            ("Food", 250, 260, "Ben"),
        )
    ),
    "roster": Sheet(
        (
            ("Name", "Mon", "Tue", "Wed"),
            ("Ann", "early", "late", "off"),
            ("Ben", "late", "off", "early"),
            ("Cleo", "off", "early", "late"),
        )
    ),
    "team": Mail(("Invoice 17", "Lunch Friday", "Contract draft", "Server down", "Holiday plan")),
    "shop": Mail(
        ("Refund please", "Order 204", "Broken lamp", "Sale offer", "Thanks", "Order 198")
    ),
}
REAL = {Sheet: RealSheet, Mail: RealMail}


def opened(world, folder, *, changed):
    """Return the real files of a world in a folder, laid out anew where it has changed."""
    return REAL[type(world)](world, folder, changed=changed)
