# The server, the worker and the commands of llm-platform in one image. docs/howto/run-in-containers.md shows how to build
# and run it; `make image-test` carries out these lines in a clean Debian. A package index of your own, with its login, comes
# as the secret pip.conf, which stays out of the image: docker build --secret id=pip.conf,src=$HOME/.config/pip/pip.conf .
FROM docker.io/library/debian:13.7-slim AS base
# tini is process 1: it passes SIGTERM on also while Python is still starting, and Python as process 1 would ignore it then.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 llm-platform \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/llm-platform --shell /usr/sbin/nologin llm-platform \
    && install --directory --owner 10001 --group 10001 --mode 0750 /var/lib/llm-platform

FROM base AS build
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
WORKDIR /build
COPY deploy/image/build.lock deploy/image/runtime.lock ./
RUN python3 -m venv tools && python3 -m venv --without-pip /opt/llm-platform
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    tools/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --requirement build.lock \
    && tools/bin/pip --python /opt/llm-platform/bin/python install --no-cache-dir --require-hashes --only-binary :all: \
        --requirement runtime.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src src
RUN tools/bin/pip wheel --no-index --no-deps --no-build-isolation --wheel-dir dist . \
    && tools/bin/pip --python /opt/llm-platform/bin/python install --no-index --no-deps dist/*.whl

FROM base
COPY --from=build /opt/llm-platform /opt/llm-platform
COPY --chmod=0755 deploy/image/healthcheck /usr/local/bin/healthcheck
ENV PATH=/opt/llm-platform/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LLM_PLATFORM_HOST=0.0.0.0 \
    LLM_PLATFORM_PORT=8000 \
    WORKER_HTTP_PORT=9100 \
    LLM_PLATFORM_DATA_DIR=/var/lib/llm-platform
WORKDIR /var/lib/llm-platform
USER 10001:10001
EXPOSE 8000 9100
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["healthcheck", "LLM_PLATFORM_PORT"]
ENTRYPOINT ["tini", "--"]
CMD ["llm-platform", "serve"]
