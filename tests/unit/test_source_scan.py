"""What must not stand in the source, looked for in every file there is."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from django_durable_jobs.drivers.postgres import statements

PACKAGE = Path(__file__).resolve().parents[2] / "django_durable_jobs"
# The setting DRIVER holds a dotted path that the project's owner wrote; nothing else is ever
# imported by a name that was stored or sent.
MAY_IMPORT_BY_NAME = ("conf.py", "store/")
UNSAFE_MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
UNSAFE_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
# Ids, which only have to differ and to sort; one process's own store; what people are shown; and
# a context that nobody else sees.
MAY_READ_THE_CLOCK = (
    "clock.py",
    "store/ids.py",
    "drivers/memory/",
    "admin/",
    "testing/",
    "steps/context.py",
)
# As the tokens stand with spaces between them.
WALL_CLOCK = re.compile(
    r"\b(?:datetime|timezone|clock) \. (?:now|utcnow|today)\b|\btime \. time(?:_ns)?\b"
)
WHOLE_ROWS = re.compile(
    r"""\bselect\s+(?:all\s+|distinct\s+(?:on\s*\([^)]*\)\s*)?)?(?:"?\w+"?\.)?\*"""
    r"""|\breturning\s+(?:"?\w+"?\.)?\*"""
    r"""|,\s*"?\w+"?\.\*""",
    re.IGNORECASE,
)


def without_sql_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|--[^\n]*", " ", text, flags=re.DOTALL)


def without_python_comments(text: str) -> str:
    """Return the source with comments and docstrings taken out."""
    docstrings = {
        node.body[0].lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    }
    kept = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type != tokenize.COMMENT
        and not (token.type == tokenize.STRING and token.start[0] in docstrings)
    ]
    return without_sql_comments(" ".join(kept))


def whole_rows(name: str, text: str) -> list[str]:
    """Return each read of whole rows in the file's SQL."""
    if name.endswith(".sql"):
        text = without_sql_comments(text)
    else:
        text = without_python_comments(text)
    return [match.group() for match in WHOLE_ROWS.finditer(text)]


def unsafe_code(name: str, text: str) -> list[str]:
    """Return what could run or import something that data names."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names):
                imported = [module or "", *(f"{module}.{alias.name}" for alias in names)]
            case _:
                imported = []
        found += [path for path in imported if path.split(".")[0] in UNSAFE_MODULES]
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if called in UNSAFE_CALLS:
            found.append(called)
        by_name = [path for path in [*imported, called] if path.endswith("import_string")]
        if not name.startswith(MAY_IMPORT_BY_NAME):
            found += by_name
    return found


def source_files(*suffixes: str) -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*") if path.suffix in suffixes)


def test_the_scan_finds_the_package():
    names = {path.relative_to(PACKAGE).as_posix() for path in source_files(".py", ".sql")}

    assert {"states.py", "store/port.py"} <= names


def test_no_statement_reads_whole_rows():
    """A column added by a newer version must not reach an older worker, nor a big one a list."""
    found = {
        path.relative_to(PACKAGE).as_posix(): hits
        for path in source_files(".py", ".sql")
        if (hits := whole_rows(path.name, path.read_text()))
    }

    assert found == {}


def test_nothing_stored_or_sent_is_ever_executed_or_imported_by_name():
    found = {
        name: hits
        for path in source_files(".py")
        if (hits := unsafe_code(name := path.relative_to(PACKAGE).as_posix(), path.read_text()))
    }

    assert found == {}


def test_no_decision_about_a_run_is_taken_by_the_time_of_day_of_its_process():
    """A worker whose clock is ahead must neither miss an event nor end a wait early."""
    found = {
        name: hits
        for path in source_files(".py")
        if not (name := path.relative_to(PACKAGE).as_posix()).startswith(MAY_READ_THE_CLOCK)
        if (hits := WALL_CLOCK.findall(without_python_comments(path.read_text())))
    }

    assert found == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sql", "SELECT *\nFROM x_jobs"),
        ("a.sql", "select j.* from x_jobs j"),
        ("a.sql", "select j.id, s.* from x_jobs j"),
        ("a.sql", "select distinct on (id) * from x_jobs"),
        ("a.sql", "update x_jobs set state = 'done' -- all\n returning *"),
        ("a.py", 'query = """\nDELETE FROM x_jobs RETURNING x_jobs.*\n"""'),
    ],
)
def test_a_read_of_whole_rows_is_found(name, text):
    assert whole_rows(name, text) != []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.sql", "select count(*) from x_jobs"),
        ("a.sql", "-- never select * here\nselect id from x_jobs"),
        ("a.sql", "/* returning *\n */ select 2 * 3"),
        ("a.py", 'def f():\n    """No select * here."""  # returning *\n    return 1\n'),
    ],
)
def test_what_only_looks_like_a_read_of_whole_rows_is_let_be(name, text):
    assert whole_rows(name, text) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("worker/run.py", "import pickle"),
        ("worker/run.py", "from marshal import loads"),
        ("worker/run.py", "yaml.load(text)"),
        ("worker/run.py", "def f(x):\n    return eval(x)"),
        ("worker/run.py", "from django.utils.module_loading import import_string"),
        ("worker/run.py", "module_loading.import_string(path)"),
    ],
)
def test_unsafe_code_is_found(name, text):
    assert unsafe_code(name, text) != []


@pytest.mark.parametrize(
    "call", ["clock.now()", "datetime.now(UTC)", "time.time()", "timezone.now()"]
)
def test_a_look_at_the_time_of_day_is_found(call):
    assert WALL_CLOCK.search(without_python_comments(f"due = {call}\n"))


def test_only_the_driver_setting_may_be_imported_by_name():
    text = "from django.utils.module_loading import import_string\nimport_string(path)"

    assert unsafe_code("conf.py", text) == []
    assert unsafe_code("store/registry.py", text) == []
    assert unsafe_code("jobs/registry.py", text) != []


def test_no_statement_is_sent_with_the_comments_of_its_file_or_fragments():
    """They are for people; each byte of a statement is sent and read at each call."""
    assert [name for name in statements.names() if "--" in statements.load(name).query] == []
