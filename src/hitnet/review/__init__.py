"""Review an audit in the browser: decisions are saved as they are made."""

from hitnet.review.server import serve_review as serve_review
