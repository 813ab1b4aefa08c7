#!/bin/sh
# Nothing but the command line: each method by where it is. Run in examples/: sh by_path.sh --workers 2
PYTHONPATH="own_methods${PYTHONPATH:+:$PYTHONPATH}" exec "${PYTHON:-python}" -m subspan bench --no-memory \
    --method own_methods.offset:Offset:share=0.2 --method own_methods.margin:Margin:clip=5,gap=2 "$@"
