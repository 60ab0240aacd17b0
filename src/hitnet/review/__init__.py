"""Review an audit in the browser: decisions are saved as they are made."""

from typing import Any

from hitnet.errors import MissingPackageError

try:
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    _missing = error.name

    def serve_review(*arguments: Any, **options: Any) -> int:
        """Serve an audit's page; here, a package that this needs is missing."""
        advice = "Without it, open report.html in the audit folder."
        raise MissingPackageError("`hitnet review`", _missing, "review", advice)

else:
    from hitnet.review.server import serve_review as serve_review  # type: ignore[assignment]
