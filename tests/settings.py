"""Settings of the test suite: two databases on one server, everything else at its default."""

import environ

env = environ.Env()

SECRET_KEY = "tests-only"
DEBUG = False
USE_TZ = True
TIME_ZONE = "UTC"
ALLOWED_HOSTS = ["*"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"

# mypy and makemigrations load these settings without a server; only a connection needs the real
# address, which tests.database_plugin has set by then.
default = env.db_url("DATABASE_URL", default="postgresql://postgres@127.0.0.1/durable_jobs")
# A socket's address comes as ?host=…&port=…, which only libpq looks for; Django's own tools
# (dbshell, the names of test databases) look for HOST and PORT.
for key in ("host", "port"):
    if key in default.get("OPTIONS", {}):
        default[key.upper()] = default["OPTIONS"].pop(key)

DATABASES = {
    "default": default,
    # For jobs enqueued from a transaction of another database.
    "other": {**default, "NAME": f"{default['NAME']}_other"},
}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_durable_jobs",
    "example_project.orders",
    "example_project.payments",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Users are made by the hundred; their passwords guard nothing.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

DURABLE_JOBS: dict[str, object] = {}
