"""Settings of the example shop, read from the environment."""

import environ

env = environ.Env()

# For a shop on one's own machine only; a real project has neither default.
SECRET_KEY = env.str("SECRET_KEY", default="the example shop keeps no secrets")
DEBUG = env.bool("DEBUG", default=True)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["127.0.0.1", "localhost"])

# manage.py sets DATABASE_URL when it has started the embedded server.
database = env.db_url("DATABASE_URL")
# A socket's address comes as ?host=…&port=…, which only libpq looks for; Django's own tools
# (dbshell, the names of test databases) look for HOST and PORT.
for key in ("host", "port"):
    if key in database.get("OPTIONS", {}):
        database[key.upper()] = database["OPTIONS"].pop(key)
DATABASES = {"default": database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

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
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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

ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"

# A project that sets nothing runs on the defaults. The demo shortens the lease, so that one sees
# a killed worker's orders go on at once.
DURABLE_JOBS = {
    "LEASE": env.str("JOBS_LEASE", default="60s"),
    "GRACE": env.str("JOBS_GRACE", default="30s"),
}

# How long the outside world takes, and how often it fails.
SHOP = {
    "GATEWAY_SECONDS": env.float("SHOP_GATEWAY_SECONDS", default=0.2),
    "GATEWAY_FAILS_EVERY": env.int("SHOP_GATEWAY_FAILS_EVERY", default=7),
    "COOL_OFF": env.str("SHOP_COOL_OFF", default="2s"),
    "PACKING_TIME": env.str("SHOP_PACKING_TIME", default="2s"),
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", default="INFO").upper()},
}
