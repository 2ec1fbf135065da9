"""Shapes of modules by their source: what they show, and that nothing of the source is executed."""

import inspect
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

from lowgear.adapters.shapes import NotRead, Shapes, Unread, decorators_of, find_source


class Written(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, **sources):
        """Files of a package `frame`, by name; `__init__` is empty unless it is given."""
        package = self.folder / "frame"
        package.mkdir(exist_ok=True)
        for name, text in {"__init__": "", **sources}.items():
            (package / f"{name}.py").write_text(textwrap.dedent(text))

    def find(self, name):
        return find_source(name, [str(self.folder)]) if name.startswith("frame") else None

    def shape(self, text, **others):
        self.write(part=text, **others)
        return Shapes(self.find).module("frame.part")


class OfFunctions(Written):
    def test_parameters_are_those_that_python_sees(self):
        text = """
            def plain(a, b=1, *rest, c, d=f"{2}", **more): ...
            def positional(a, b=3, /, c: int = 4, *, d): ...
            async def waits(self, fwd_chunk_id): ...
            def nothing() -> None: ...
        """
        shape = self.shape(text)
        executed = {}
        exec(textwrap.dedent(text), executed)
        for name in ("plain", "positional", "waits", "nothing"):
            expected = inspect.signature(executed[name]).parameters.values()
            seen = inspect.signature(getattr(shape, name)).parameters.values()
            self.assertEqual([(one.name, one.kind, one.default is one.empty) for one in seen],
                             [(one.name, one.kind, one.default is one.empty) for one in expected])

    def test_names_and_decorators_are_kept(self):
        shape = self.shape("""
            class Stage:
                @torch.no_grad()
                @wrapped
                def forward(self): ...
        """)
        self.assertEqual(shape.Stage.forward.__qualname__, "Stage.forward")
        self.assertEqual(shape.Stage.forward.__module__, "frame.part")
        self.assertEqual(decorators_of(shape.Stage.forward), ("torch.no_grad", "wrapped"))


class OfModules(Written):
    def test_nothing_is_executed_and_nothing_is_imported(self):
        mark = self.folder / "executed"
        shape = self.shape(f"""
            import frame.other, no_such_package
            open({str(mark)!r}, "w").close()
            VALUE = open({str(mark)!r}, "w")
            class Base(VALUE.attribute):
                LIMIT = open({str(mark)!r}, "w")
        """, other=f"open({str(mark)!r}, 'w').close()")
        self.assertFalse(mark.exists())
        self.assertFalse([name for name in sys.modules if name.startswith("frame")])
        self.assertTrue(hasattr(shape, "Base"))
        with self.assertRaisesRegex(NotRead, "frame.part: VALUE is computed when it is imported"):
            shape.VALUE.attribute

    def test_what_is_imported_from_the_package_is_looked_up(self):
        shape = self.shape("from .other import step as renamed\nfrom . import other\nfrom frame.other import Base\n"
                           "from elsewhere import thing\nclass Derived(Base): ...\n",
                           other="def step(self): ...\nclass Base:\n    def inherited(self): ...\n")
        self.assertEqual(shape.renamed.__module__, "frame.other")
        self.assertIs(shape.other.step, shape.renamed)
        self.assertTrue(hasattr(shape.Derived, "inherited"))
        self.assertFalse(hasattr(shape.Derived, "missing"))
        self.assertFalse(hasattr(shape, "missing"))
        self.assertIsInstance(shape.thing, Unread)

    def test_modules_that_import_each_other_end(self):
        shape = self.shape("from .other import one\nfrom frame import itself\ndef two(): ...\n",
                           other="from .part import two, one\n", __init__="from frame import itself\n")
        for name in ("one", "itself"):
            with self.assertRaises(NotRead):
                getattr(shape, name).attribute

    def test_branches_define(self):
        shape = self.shape("""
            if TYPE_CHECKING:
                def first(a): ...
            else:
                def first(b): ...
                def second(b): ...
            try:
                import fast
            except ImportError:
                def third(c): ...
        """)
        self.assertEqual([list(inspect.signature(getattr(shape, name)).parameters) for name in ("first", "second", "third")],
                         [["a"], ["b"], ["c"]])

    def test_a_table_is_read_whole_or_not_at_all(self):
        text = """
            from . import other
            class Engine:
                def forward(self, buffer_id): ...
                TABLE = {other.Forward: forward}
                MORE = {other.Forward: forward, **made()}
                UNKNOWN = {elsewhere.Thing: forward}
                EMPTY = {}
        """
        engine = self.shape(text, other="class Forward: ...").Engine
        self.assertEqual([(key.__name__, value.__qualname__) for key, value in engine.TABLE.items()],
                         [("Forward", "Engine.forward")])
        self.assertEqual(engine.EMPTY, {})
        for table in (engine.MORE, engine.UNKNOWN):
            with self.assertRaises(NotRead):
                list(table)

    def test_what_python_calls_by_itself_is_left_out(self):
        shape = self.shape("def __getattr__(name): ...\nclass Slots:\n    __slots__ = ('a', 'b')\n")
        self.assertFalse(hasattr(shape, "anything"))
        self.assertTrue(hasattr(shape, "Slots"))

    def test_a_file_that_cannot_be_read_says_so(self):
        self.write(broken="def (:\n")
        with self.assertRaises(SyntaxError):
            Shapes(self.find).module("frame.broken")
        with self.assertRaises(LookupError):
            Shapes(self.find).module("frame.nowhere")
        with self.assertRaisesRegex(ValueError, "is no source"):
            Shapes(lambda name: Path("compiled.so")).module("frame.compiled")


class OfFinding(Written):
    def test_files_are_found_below_packages_with_and_without_init(self):
        self.write(part="")
        (self.folder / "spread" / "core").mkdir(parents=True)
        (self.folder / "spread" / "core" / "__init__.py").touch()
        (self.folder / "spread" / "core" / "part.py").touch()
        path = [str(self.folder)]
        for name, file in {"frame": "frame/__init__.py", "frame.part": "frame/part.py",
                           "spread.core": "spread/core/__init__.py", "spread.core.part": "spread/core/part.py"}.items():
            self.assertEqual(find_source(name, path), self.folder / file)
        for name in ("spread", "frame.none", "frame.none.part", "nowhere", "nowhere.part"):
            self.assertIsNone(find_source(name, path), name)


if __name__ == "__main__":
    unittest.main()
