"""Settings of methods as a file: what the paper gives, what was chosen on development data, for which protocol.

``subspan sweep`` writes such files, ``subspan bench`` and ``subspan reproduce`` take them. Some come with the package.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from subspan.engine.contract import Learner
from subspan.experiments.inputs import ProtocolError
from subspan.files.atomic import replacing
from subspan.learners.registry import create_method, split_spec

PROTOCOLS = ("multi-session", "single-session")
PACKAGED = ("single-session-mini", "single-session-tiered", "single-session-mini-strong", "multi-session-strong")


@dataclass(frozen=True)
class Setting:
    """One method with its options, by where these come from. An option in neither keeps the method's own default."""

    method: str  # its name
    label: str = ""  # what tables call it
    shots: int | None = None  # single-session only
    embeddings: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict)  # published, or fixed by the user
    chosen: Mapping[str, Any] = field(default_factory=dict)  # on development data

    @classmethod
    def of(cls, spec: str, **about: Any) -> "Setting":
        """The setting of a text ``name:option=value,...``, whose options are given."""
        made, (method, text) = create_method(spec), split_spec(spec)
        said = [item.partition("=")[0].strip() for item in text.split(",") if item]
        given = {(now := made.renamed_options.get(name, name)): getattr(made, now) for name in said}
        return cls(method, given=given, **about)

    @property
    def name(self) -> str:
        """What tables and logs call it."""
        return self.label or self.method

    def create(self, **options: Any) -> Learner:
        """The method with these options, others over them."""
        return create_method(self.method, **{**self.given, **self.chosen, **options})


@dataclass(frozen=True)
class Config:
    """Settings for one protocol."""

    protocol: str
    settings: tuple[Setting, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)  # how it was made

    @classmethod
    def load(cls, source: str | Path, protocol: str) -> "Config":
        """Read a file, or the one of this name that comes with the package; it must be for this protocol."""
        path, name = Path(source), str(source)
        try:
            if name in PACKAGED and not path.exists():
                text = resources.files("subspan.features.bundle").joinpath(f"{name}.json").read_text("utf-8")
            else:
                text = path.read_text("utf-8")
            record = json.loads(text)
            settings = tuple(Setting(**setting) for setting in record["settings"])
            if not settings:
                raise ValueError("it has no settings")
            config = cls(str(record["protocol"]), settings, dict(record.get("about", {})))
            for setting in settings:
                setting.create()
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(
                f"'{source}' is no config of method settings ({error}); it is a JSON file as `subspan sweep` writes "
                f"it, or one of {', '.join(PACKAGED)}"
            ) from error
        if config.protocol != protocol:
            raise ProtocolError(f"'{source}' holds settings for the {config.protocol} protocol, not for {protocol}")
        return config

    def save(self, path: str | Path) -> Path:
        """Write the settings as JSON, in one step."""
        path = Path(path)
        with replacing(path) as file:
            file.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")
        return path

    def method(self, spec: str) -> Learner:
        """The method of a text ``name:option=value,...``; what the text leaves open comes from its setting here."""
        said = Setting.of(spec)
        setting = next((one for one in self.settings if one.method == said.method), said)
        return setting.create(**said.given)
