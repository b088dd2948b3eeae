"""Every number of a prediction against the plans that succeed: a panel each, a dot a checkpoint."""

from html import escape
from itertools import product

KINDS = {"modular": "#0072b2", "ae": "#d55e00", "gnn": "#009e73", "vae": "#cc79a7"}
SIDE, GAP, LEFT, TOP = 124, 16, 64, 44


def draw(panels, captions, legend):
    """Return an SVG of panels {(row, column): [(x, y, kind, is_hollow)]}, shares all of them."""
    rows, columns = (list(dict.fromkeys(keys)) for keys in zip(*panels, strict=True))
    width = LEFT + len(columns) * (SIDE + GAP)
    foot = TOP + len(rows) * (SIDE + 2 * GAP + 6)
    parts = [_text(LEFT + at * (SIDE + GAP), 30, name, "b") for at, name in enumerate(columns)]
    for (down, row), (right, column) in product(enumerate(rows), enumerate(columns)):
        x, y = LEFT + right * (SIDE + GAP), TOP + down * (SIDE + 2 * GAP + 6)
        parts.append(f'<path class="axes" d="M{x} {y}v{SIDE}h{SIDE}"/>')
        parts.append(_text(x + 4, y + SIDE + 15, captions[row, column], "s"))
        if not right:
            parts += [
                _text(4, y + SIDE // 2, row, "b"),
                _text(4, y + SIDE // 2 + 14, "solved", "s"),
            ]
            parts += [_text(x - 14, y + 8, "1", "s"), _text(x - 14, y + SIDE, "0", "s")]
        for across, up, kind, is_hollow in panels[row, column]:
            at = f'cx="{x + SIDE * across:.1f}" cy="{y + SIDE * (1 - up):.1f}" r="3.2"'
            looks = f'fill="{"none" if is_hollow else KINDS[kind]}" stroke="{KINDS[kind]}"'
            parts.append(f"<circle {at} {looks}/>")
    for at, (kind, colour) in enumerate(KINDS.items()):
        parts.append(f'<circle cx="{LEFT + 6 + 90 * at}" cy="{foot + 8}" r="5" fill="{colour}"/>')
        parts.append(_text(LEFT + 16 + 90 * at, foot + 12, kind, "s"))
    parts.append(_text(LEFT + 90 * len(KINDS), foot + 12, legend, "s"))
    style = (
        "text{font:11px sans-serif;fill:#222}.b{font-weight:600}.s{fill:#555}"
        ".axes{fill:none;stroke:#999}circle{fill-opacity:.55}"
    )
    size = f'width="{width}" height="{foot + 24}" viewBox="0 0 {width} {foot + 24}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{style}</style>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>\n"])


def _text(x, y, text, style):
    return f'<text x="{x}" y="{y}" class="{style}">{escape(text)}</text>'
