"""docs/training.md has every setting that the readers of the configuration know, and no other."""

import re
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
READERS = ("config/train_config.cpp", "config/precision_config.cpp", "config/adapt_config.cpp",
           "config/train_server_config.cpp", "energy/envpipe_config.h")
# Lists of the names of a section's members.
LISTS = re.compile(r"(?:require_only\(\s*|kWays = |std::to_array<std::string_view>\()\{([^}]*)\}")
IN_LISTS = {"step", "partition"}  # members of an entry of a list


def known_settings():
    text = "".join((SOURCE / "src/training/launcher" / name).read_text() for name in READERS)
    return {name for names in LISTS.findall(text) for name in re.findall(r'"(\w+)"', names)}


class SettingsPage(unittest.TestCase):
    def setUp(self):
        page = (SOURCE / "docs/training.md").read_text()
        table = page[page.index("| setting |"):page.index("\n\n", page.index("| setting |"))]
        self.cells = [row.split(" | ")[0] for row in table.splitlines()[2:]]
        self.envpipe = page[page.index("members of `energy.envpipe`"):page.index("\n\n## Not supported")]
        self.rows = table

    def test_every_setting_is_described(self):
        described = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", self.rows + self.envpipe))))
        self.assertEqual(known_settings() - described, set())

    def test_every_row_is_a_setting(self):
        named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", " ".join(self.cells)))))
        self.assertGreater(len(named), 90)
        self.assertEqual(named - known_settings() - IN_LISTS, set())


if __name__ == "__main__":
    unittest.main()
