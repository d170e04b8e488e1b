"""`cwnet convert`: a command line of chemprop as one of cwnet."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Annotated, Any

import typer

from cwnet._files import read_plain
from cwnet.cli._chemprop import VERBS, Option, Verb
from cwnet.cli._shared import console, paragraphs
from cwnet.errors import CwnetError

__all__ = ["Converted", "add_to", "convert_command", "convert_config"]

#: Verbs of version 1 that have another name in version 2, or none.
_OLD = {"hyperopt": "hpopt"}
_NUMBER = re.compile(r"-\.?\d")
#: A config file has a few lines.
_LARGEST = 2**20


@dataclass
class Converted:
    """A command of cwnet.

    Attributes:
        command: its words.
        notes: options of chemprop that have no counterpart, or one that differs, with a sentence each.
    """

    command: list[str]
    notes: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Given:
    """An option as it was typed, or as it stands in a config file."""

    name: str
    values: Sequence[str]
    typed: bool = True

    @property
    def key(self) -> str:
        return self.name.lstrip("-").replace("_", "-")


def convert(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar='"COMMAND" | CONFIG.toml',
            help="A command line of chemprop, best in quotes; or the config.toml that chemprop train wrote.",
            show_default=False,
        ),
    ],
) -> None:
    """Turn a command line of chemprop into one of cwnet.

    Takes train, predict, fingerprint and hpopt of chemprop 2 with all their options, and the usual ones of chemprop 1
    (chemprop_train, --dataset_type, ...). The command goes to the standard output; each option that has no counterpart,
    or one that differs, is named with a sentence on the error stream. Nothing is run.

    What the command of chemprop leaves open stays open: cwnet has defaults of its own, such as three networks with
    decision trees beside them. Of a config file, which holds every value, those that are chemprop's defaults are left
    open too.
    """
    found = _convert(source)
    typer.echo(shlex.join(found.command))
    notes = console(stderr=True)
    for option, said in found.notes:
        notes.print(f"{option}: {said}", soft_wrap=True)


def _convert(source: Sequence[str]) -> Converted:
    if len(source) > 1:
        return convert_command(source)
    try:
        words = shlex.split(source[0])
    except ValueError as error:  # of a quote that is not closed
        raise CwnetError(f"{source[0][:200]!r} is not a command line: {error}") from None
    is_file = len(words) == 1 or os.path.isfile(source[0])
    if is_file and PurePath(source[0]).suffix in (".toml", ".json"):
        return convert_config(source[0])
    return convert_command(words)


def convert_config(path: str) -> Converted:
    """The command for a config file of chemprop train."""
    return _converted(VERBS["train"], list(_read_config(path)))


def convert_command(words: Sequence[str]) -> Converted:
    """The command for the words of one of chemprop.

    Raises:
        CwnetError: for a command that is not one of chemprop's, or without what it is about.
    """
    verb, rest = _find_verb(words)
    given: list[_Given] = []
    for each in _read_words(verb, rest):
        given += _read_config(each.values[0]) if each.key == "config-path" and each.values else [each]
    return _converted(verb, given)


def _find_verb(words: Sequence[str]) -> tuple[Verb, Sequence[str]]:
    """The verb, as in "chemprop train", "chemprop_train" or "python train.py", and what follows it."""
    for at, word in enumerate(words):
        name = PurePath(word).name.removesuffix(".py").replace("-", "_")
        name = name.removeprefix("chemprop_") if name != "chemprop" else next(iter(words[at + 1 : at + 2]), "")
        name = _OLD.get(name, name)
        if name in VERBS:
            return VERBS[name], words[at + (2 if PurePath(word).name == "chemprop" else 1) :]
        if word.startswith("-") and word != "-m":
            break
    raise CwnetError(
        f"{shlex.join(words)[:200]!r} is not a command of chemprop with one of the verbs {', '.join(VERBS)}: write, "
        'for example, cwnet convert "chemprop train --data-path data.csv"'
    )


def _read_words(verb: Verb, words: Sequence[str]) -> Iterator[_Given]:
    """The options of a command line with their values."""
    at = 0
    while at < len(words):
        name, equals, value = words[at].partition("=")
        at += 1
        if not _is_option(name):
            raise CwnetError(f"{words[at - 1]!r} belongs to no option: is a name with blanks in it not in quotes?")
        option = verb.options.get(_Given(name, ()).key)
        values = [value] if equals else []
        most = {"none": 0, "one": 1}.get("many" if option is None else option.takes, len(words))
        while at < len(words) and len(values) < most and not _is_option(words[at]):
            values.append(words[at])
            at += 1
        if option is not None and most and not values:
            raise CwnetError(f"{name} has no value")
        yield _Given(name, values)


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.match(word)


def _read_config(path: str) -> Iterator[_Given]:
    """The options of a config file: TOML, JSON, or lines of ``key = value`` without quotes, as chemprop writes them."""
    try:
        text = read_plain(path, _LARGEST).decode()
    except OSError as error:
        raise CwnetError(f"{path}: {error.strerror}. Give the config.toml that chemprop train wrote") from None
    except UnicodeDecodeError:
        raise CwnetError(f"{path} is not a text file") from None
    try:
        table: dict[str, Any] = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except (ValueError, RecursionError):  # TOML's error is one of these
        table = dict(_lines(path, text))
    for key, value in table.items():
        if value is None or value is False or value in ("None", "false", "False", []):
            continue
        flag = value is True or value in ("true", "True")
        values = [] if flag else [str(each) for each in (value if isinstance(value, list) else [value])]
        yield _Given(f"--{key}", values, typed=False)


def _lines(path: str, text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if not bare or bare[0] in "#;[":
            continue
        found = re.fullmatch(r"([A-Za-z0-9_-]+)\s*[=:]\s*(.*)", bare)
        if found is None:
            raise CwnetError(f"{path}, line {number}: {bare[:80]!r} is not of the form key = value")
        value = found[2]
        parts = [part.strip().strip("'\"") for part in value.strip("[]").split(",")]
        yield found[1], [part for part in parts if part] if value.startswith("[") else parts[0] if parts else ""


# ------------------------------------------------------------------------------------------------ counterparts


def _converted(verb: Verb, given: Sequence[_Given]) -> Converted:
    all_values = {each.key: each.values for each in given}
    arguments: dict[str, str] = {}
    options: list[list[str]] = []
    found = Converted(["cwnet", verb.name])
    for each in given:
        option = verb.options.get(each.key)
        if option is None:
            found.notes.append((each.name, "This is no option of chemprop that cwnet knows."))
            continue
        if not each.typed and _is_default(option, each.values):
            continue
        words, said = _counterpart(option, each.values, all_values)
        if words and words[0] in verb.arguments:
            arguments[words[0]] = words[1]
        else:
            options += _grouped(words)
        if said:
            found.notes.append((each.name, said))
    for name, option_name in verb.arguments.items():
        if name not in arguments:
            raise CwnetError(f"there is no --{option_name} in it, and cwnet {verb.name} needs it")
    found.command += [arguments[name] for name in verb.arguments]
    found.command += _joined(verb, options, found.notes)
    return found


def _is_default(option: Option, values: Sequence[str]) -> bool:
    def same(value: str, default: str) -> bool:
        try:
            return float(value) == float(default)
        except ValueError:
            return value.lower() == default.lower()

    return bool(values) and all(any(same(v, d) for d in option.default.split()) for v in values)


def _counterpart(
    option: Option, values: Sequence[str], given: dict[str, Sequence[str]]
) -> tuple[list[str], str]:  # fmt: skip
    """The words an option becomes, and what there is to say of it."""
    if option.how is not None:
        try:
            return option.how(values, given)
        except ValueError:
            return [], f"{' '.join(values)} is not a number."
    if option.words:
        known = [option.words.get(value.lower().replace("-", "_")) for value in values]
        words = [word for each in dict.fromkeys(known) if each for word in each.split()]
        return words, option.said if None in known else ""
    if option.to.startswith("--set "):
        said = "One number is for all: the first was taken." if len(set(values)) > 1 else option.said
        return ["--set", f"{option.to.removeprefix('--set ')}={values[0]}"], said
    if option.to and option.takes == "many" and any("," in value for value in values):
        return [], f"A name with a comma in it cannot be given to {option.to}: rename the column."
    if option.to:
        return [*option.to.split(), *([] if option.takes == "none" else [",".join(values)])], option.said
    return [], option.said


def _grouped(words: Sequence[str]) -> list[list[str]]:
    """Words as options, each with its value."""
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            groups.append([word])
        else:
            groups[-1].append(word)
    return groups


def _joined(verb: Verb, options: Sequence[list[str]], notes: list[tuple[str, str]]) -> list[str]:
    """The options in order, each once; what only `cwnet train` takes is left to the training before or after it."""
    taken: dict[str, list[str]] = {}
    known = None if verb.name == "train" else _options_of(verb.name)
    way = (
        "give it to cwnet train afterwards" if verb.name == "tune" else "it is for cwnet train, and the model keeps it"
    )
    for words in options:
        key = words[1].partition("=")[0] if words[0] == "--set" else words[0]
        if known is not None and words[0] not in known:
            notes.append((words[0], f"cwnet {verb.name} has no {words[0]}: {way}."))
            continue
        if key in taken and taken[key] != words:
            before = shlex.join(taken[key])
            notes.append((key, f"It was asked for twice: {shlex.join(words)} is taken, {before} is not."))
        taken[key] = words
    return [word for words in taken.values() for word in words]


def _options_of(verb: str) -> set[str]:
    """The options that a verb of cwnet takes."""
    from cwnet.cli import app

    command: Any = typer.main.get_command(app)
    return {name for parameter in command.commands[verb].params for name in parameter.opts + parameter.secondary_opts}


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command(
        "convert",
        help=paragraphs(convert.__doc__),
        epilog='For example: cwnet convert "chemprop train --data-path data.csv --task-type regression -o model"\n\n'
        "cwnet convert model/config.toml",
        no_args_is_help=True,
        context_settings={"ignore_unknown_options": True},
    )(convert)
