"""What differs between the admins of the supported Django versions."""

from __future__ import annotations

from typing import Any

import django
from django import template
from django.forms import Media
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()

_BREADCRUMBS_ARE_A_LIST = django.VERSION >= (6, 1)


@register.simple_tag(takes_context=True)
def durable_jobs_media(context: Any, media: Media) -> Any:
    """The stylesheets and scripts of *media*, with the page's nonce where Django has one."""
    try:
        from django.utils.csp import nonce_attr
    except ImportError:
        return media
    return nonce_attr(context, media)


@register.simple_tag
def durable_jobs_breadcrumbs(*pairs: Any) -> SafeString:
    """Breadcrumbs from label, address, label, address …; an empty address is this page."""
    crumbs = list(zip(pairs[::2], pairs[1::2], strict=True))
    if _BREADCRUMBS_ARE_A_LIST:
        items = [
            format_html('<li><a href="{}">{}</a></li>', link, label)
            if link
            else format_html('<li aria-current="page">{}</li>', label)
            for label, link in crumbs
        ]
        joined = format_html_join("\n", "{}", ((item,) for item in items))
        return format_html('<ol class="breadcrumbs">{}</ol>', joined)
    items = [
        format_html('<a href="{}">{}</a>', link, label) if link else format_html("{}", label)
        for label, link in crumbs
    ]
    joined = format_html_join(" › ", "{}", ((item,) for item in items))
    return format_html('<div class="breadcrumbs">{}</div>', joined)
