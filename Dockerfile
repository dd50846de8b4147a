# docker build \
#   --build-arg KLUCTL_SHA256_AMD64=<from kluctl_v2.28.2_checksums.txt of the release> \
#   -t towline .

# ---------------------------------------------------------------------------------------------------------------------
FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY LICENSE tsconfig.json tsconfig.build.json ./
COPY src src
COPY routes routes
COPY jobs jobs
# What `towline version` says besides the version.
ARG REVISION
# The checkout may have been made under a umask that lets nobody else read: the server is somebody else.
RUN npm run build \
 && npm prune --omit=dev --ignore-scripts \
 && if [ -n "${REVISION:-}" ]; then npm pkg set "commit=$REVISION"; fi \
 && chmod a+r LICENSE package.json

# ---------------------------------------------------------------------------------------------------------------------
FROM node:24-bookworm-slim AS kluctl
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates curl \
 && rm -rf /var/lib/apt/lists/*
ARG KLUCTL_VERSION=2.28.2
# No defaults: whoever builds the image says which bytes are the right ones, for the architectures they build for.
ARG KLUCTL_SHA256_AMD64
ARG KLUCTL_SHA256_ARM64
RUN set -eu; \
    architecture="$(dpkg --print-architecture)"; \
    case "$architecture" in \
      amd64) argument=KLUCTL_SHA256_AMD64; sha256="${KLUCTL_SHA256_AMD64:-}" ;; \
      arm64) argument=KLUCTL_SHA256_ARM64; sha256="${KLUCTL_SHA256_ARM64:-}" ;; \
      *) echo "kluctl has no release for $architecture: build for amd64 or arm64" >&2; exit 1 ;; \
    esac; \
    release="https://github.com/kluctl/kluctl/releases/download/v$KLUCTL_VERSION"; \
    archive="kluctl_v${KLUCTL_VERSION}_linux_$architecture.tar.gz"; \
    if [ -z "$sha256" ]; then \
      echo "the checksum of $archive is missing: pass --build-arg $argument=..., it is listed in" >&2; \
      echo "$release/kluctl_v${KLUCTL_VERSION}_checksums.txt" >&2; \
      exit 1; \
    fi; \
    curl --fail --silent --show-error --location --retry 3 --output "/tmp/$archive" "$release/$archive"; \
    echo "$sha256  /tmp/$archive" | sha256sum --check --strict -; \
    tar --extract --gzip --file "/tmp/$archive" --directory /usr/local/bin kluctl; \
    rm "/tmp/$archive"; \
    /usr/local/bin/kluctl version --no-update-check

# ---------------------------------------------------------------------------------------------------------------------
FROM node:24-bookworm-slim

# git, ssh and gpg for sources; setpriv (util-linux) and bash for the watchdog that ends kluctl with the server; tini
# reaps what is orphaned; redis-server is the private queue when no Redis is configured.
#
# The writable directories belong to group 0 as well, so that the image also runs under another uid with group 0. ssh
# refuses to run for a uid without a name, hence libnss-unknown; last, as nobody can be added to where all uids have one.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
      bash ca-certificates git gnupg openssh-client redis-server tini tzdata util-linux \
 && useradd --uid 65532 --gid 0 --no-create-home --home-dir /var/lib/towline --shell /usr/sbin/nologin towline \
 && apt-get install --yes --no-install-recommends libnss-unknown \
 && rm -rf /var/lib/apt/lists/* \
 && touch /etc/ssh/ssh_known_hosts \
 && install --directory --owner=65532 --group=0 --mode=0770 /var/lib/towline /var/cache/kluctl

ENV NODE_ENV=production \
    HOME=/var/lib/towline \
    TOWLINE_DATA_DIR=/var/lib/towline \
    TOWLINE_KLUCTL=/usr/local/lib/towline/kluctl \
    TOWLINE_KLUCTL_CACHE_DIR=/var/cache/kluctl

# Made before the user changes: what the server runs from belongs to root.
WORKDIR /app

COPY --from=kluctl /usr/local/bin/kluctl /usr/local/lib/towline/kluctl
# So that the pods of kluctl's controller only need another image: there `kluctl controller run` is the command.
COPY image/kluctl /usr/local/bin/kluctl
USER 65532:0

# kluctl unpacks a Python of its own on its first run and compiles what it uses: seconds that are spent here, once.
# A render warms more of it than any other command that needs no cluster. The server looks for it in `python`, see
# src/kluctl/directories.ts.
COPY --chown=65532:0 examples/shop /tmp/shop
RUN mkdir -p /tmp/warm "$TOWLINE_KLUCTL_CACHE_DIR/python" \
 && ln -s "$TOWLINE_KLUCTL_CACHE_DIR/python" /tmp/warm/go-embed-jinja2 \
 && KLUCTL_CACHE_DIR=/tmp/warm kluctl render --no-update-check --no-color --project-dir /tmp/shop --target staging \
      --offline-kubernetes --render-output-dir /tmp/rendered \
 && chmod --recursive g=u "$TOWLINE_KLUCTL_CACHE_DIR" \
 && rm -rf /tmp/shop /tmp/warm /tmp/rendered /tmp/kluctl-workdir

COPY --from=build /app/LICENSE /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist

# Everything that is written is below these three, so the root file system can be read-only. A Docker volume starts as a
# copy of the image's directory, so the warmed cache stays warm; an empty directory mounted there is filled on first use.
VOLUME ["/var/lib/towline", "/var/cache/kluctl", "/tmp"]

# 8080: webhooks. 9090: health and metrics, not for the internet.
EXPOSE 8080 9090
HEALTHCHECK --interval=15s --timeout=3s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9090/livez').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]

ARG REVISION
LABEL org.opencontainers.image.title="Towline" \
      org.opencontainers.image.description="A GitOps server for kluctl" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"

ENTRYPOINT ["/usr/bin/tini", "--", "node", "/app/dist/src/cli.js"]
CMD ["serve"]
