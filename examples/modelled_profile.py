"""A profile by a model of time and power, for examples and tests."""


def write_profile(path):
    """Two stages on an H100: the second has 35 % more work."""
    rows = ["stage,instruction,frequency,time,energy"]
    for stage, work in enumerate((1.0, 1.35)):
        for kind, time_s in (("forward", 0.05), ("backward", 0.1)):
            for mhz in range(1005, 1981, 15):
                seconds = 0.75 * time_s * work * 1980 / mhz + 0.25 * time_s
                rows.append(f"{stage},{kind},{mhz},{seconds:.6f},{seconds * (150 + 520 * (mhz / 1980) ** 2.4):.4f}")
    path.write_text("\n".join(rows) + "\n")
