"""The page itself: its summary quotes what its tables measured, and finds every section."""

import re

from statistics_page import GROUPS, PAGE, SUMMARY, Page, sections_of


def test_every_figure_of_the_summary_stands_in_a_table():
    tables = "\n".join(sections_of(PAGE.read_text(encoding="utf-8")).values())
    measured = set(re.findall(r"\d+\.\d+", tables))
    # Some tables give shares in place of percentages.
    measured |= {f"{100 * float(number):g}" for number in measured}
    quoted = set(re.findall(r"(\d+\.\d+) % |one of (\d\.\d+)", SUMMARY.replace("\n", " ")))
    figures = {percent or drop for percent, drop in quoted}
    assert len(figures) > 8
    assert figures <= measured


def test_every_share_that_the_page_of_policy_comparisons_quotes_stands_in_a_table():
    sections = sections_of(PAGE.read_text(encoding="utf-8"))
    measured = "".join(sections[title] for title in GROUPS["Policy comparisons"])
    quoted = (PAGE.parent / "policy-comparison.md").read_text(encoding="utf-8")
    _, _, worth = quoted.partition("## What the numbers are worth")
    shares = set(re.findall(r"\d+\.\d+ %", worth))
    assert len(shares) > 8
    assert shares <= set(re.findall(r"\d+\.\d+ %", measured))


def test_the_page_is_what_its_sections_and_summary_make_of_it():
    text = PAGE.read_text(encoding="utf-8")
    assert Page().merged_into(text) == text


def test_every_section_stands_in_its_group_and_every_group_is_measured():
    text = PAGE.read_text(encoding="utf-8")
    assert [title for titles in GROUPS.values() for title in titles] == list(sections_of(text))
    headings = re.findall(r"(?m)^### (.*)$", text)
    assert headings == list(GROUPS)


def test_a_run_replaces_its_own_sections_and_keeps_the_others():
    page = Page()
    page.table("Bets", ["a"], [[1]], note="New.")
    text = "# Old\n\n## Evidence\n\n#### Bets\n\nOld.\n\n#### Far tails\n\nKept.\n"
    sections = sections_of(page.merged_into(text))
    assert sections["Bets"].strip().startswith("New.")
    assert sections["Far tails"].strip() == "Kept."
