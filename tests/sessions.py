"""What a session of pytester said and wrote, however its lines are broken and long it took."""

TIMES = {"seconds", "latency_ms", "cpu_ms"}


def flat(result):
    return " ".join((result.stdout.str() + result.stderr.str()).split())


def untimed(value):
    if isinstance(value, dict):
        return {name: untimed(one) for name, one in value.items() if name not in TIMES}
    return [untimed(one) for one in value] if isinstance(value, list) else value
