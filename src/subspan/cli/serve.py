"""``subspan serve``: a catalogue as a service with a page."""

import os
import sys
import warnings

import typer
from PIL.Image import DecompressionBombWarning

from subspan.catalogue.catalogue import Catalogue
from subspan.cli.catalogue import CataloguePath, Network, Trust
from subspan.cli.parts.flags import Values, with_flags
from subspan.serve.access import find_tokens, is_loopback
from subspan.serve.settings import ServeSettings


@with_flags(settings=ServeSettings)
def serve(catalogue: CataloguePath, backbone: Network = None, trust: Trust = False, *, settings: Values) -> None:
    """Serve a catalogue: classify, add and undo over HTTP, and on a page for people.

    Only this machine reaches it, unless --host says otherwise. Writing needs a token; with another --host, everything
    does. Without --token-file and SUBSPAN_TOKEN one is made and printed here, once.

    Examples:

        subspan serve birds.subspan

        subspan serve birds.subspan --host 0.0.0.0 --token-file token.txt
    """
    chosen = ServeSettings(**settings)
    from subspan.serve.app import create_app
    from subspan.serve.connections import Server, listen, most_connections

    tokens, source = find_tokens(chosen)
    # Clients keep the cores busy; threads of a network that wait for each other would only be in their way.
    os.environ["OMP_NUM_THREADS"] = "1"
    if torch := sys.modules.get("torch"):  # loaded before, it does not look there again
        torch.set_num_threads(1)
    warnings.simplefilter("ignore", DecompressionBombWarning)  # the service has a limit of its own, and says so itself
    opened = Catalogue.open(catalogue, backbone, trust=trust)
    app = create_app(opened, chosen, tokens)
    with listen(chosen) as listener:
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        typer.echo(f"{catalogue}: {len(opened.classes())} classes, network {opened.backbone.name}.")
        secret = tokens[0].secret
        typer.echo(f"Page: {address}" + (f"#token={secret}" if source is None else f"   (token: {source})"))
        if source is None:
            typer.echo(f"Token, shown only now: {secret}")
        if not is_loopback(chosen.host):
            typer.echo(
                "Other machines can reach it, unencrypted: where they are not yours, put a proxy with TLS in front."
            )
        if (most := most_connections(chosen)) < chosen.max_connections:
            typer.echo(f"At most {most} connections, by the limit on open files of this process.")
        Server(app, chosen).run([listener])
