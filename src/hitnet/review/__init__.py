"""Review an audit in the browser: decisions are saved as they are made, and the rest is ranked again."""

from hitnet.errors import HitNetError

try:
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise HitNetError(
        f"`hitnet review` needs the package {error.name}: pip install 'hitnet[review]'. "
        "Without it, open report.html in the audit folder."
    ) from error

from hitnet.review.server import serve_review

__all__ = ["serve_review"]
