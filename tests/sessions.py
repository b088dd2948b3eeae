"""Sessions of pytester: what they said and wrote, however long it took, and who they are."""

TIMES = {"seconds", "latency_ms", "cpu_ms", "resumed"}


def flat(result):
    return " ".join((result.stdout.str() + result.stderr.str()).split())


def untimed(value):
    if isinstance(value, dict):
        return {name: untimed(one) for name, one in value.items() if name not in TIMES}
    return [untimed(one) for one in value] if isinstance(value, list) else value


def tell_workers(pytester):
    """Have workers of a session apart know its process, and return their expression for it."""
    with (pytester.path / "conftest.py").open("a", encoding="utf-8") as file:
        file.write("\nimport os\n\nos.environ.setdefault('SESSION', str(os.getpid()))\n")
    return "int(os.environ['SESSION'])"
