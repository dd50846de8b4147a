# docker build \
#   --build-arg KLUCTL_SHA256_AMD64=<from kluctl_v2.28.2_checksums.txt of the release> \
#   -t towline .
#
# docs/image.md documents the contents of the image, the source of that checksum, and how to run the image.

# Debian 13 has git 2.47, Debian 12 only 2.39. `npm run pin` writes the digest; a release without one is rejected.
ARG NODE_IMAGE=node:24-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe

# ---------------------------------------------------------------------------------------------------------------------
# The server's npm packages, for the architecture of the image.
FROM ${NODE_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Types and source maps are not used at run time and make up a third of the size.
RUN npm ci --omit=dev --ignore-scripts --no-audit \
 && find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.cts' -o -name '*.d.mts' \) -delete \
 && chmod --recursive u=rwX,go=rX node_modules

# ---------------------------------------------------------------------------------------------------------------------
# The build result is the same for all architectures, so it is built natively even if the target is emulated.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY LICENSE tsconfig.json tsconfig.build.json vite.config.ts ./
# `towline demo` is compiled too, but is not part of the image.
COPY dev dev
COPY src src
COPY routes routes
COPY jobs jobs
COPY ui ui
# Commit that `towline version` prints beside the version.
ARG REVISION
# The checkout may have been made under a umask without read access for others, but the server runs as another user.
RUN npm run build \
 && rm -rf dist/dev \
 && if [ -n "${REVISION:-}" ]; then npm pkg set "commit=$REVISION"; fi \
 && chmod a+x dist/src/cli.js \
 && chmod --recursive u=rwX,go=rX dist LICENSE package.json

# ---------------------------------------------------------------------------------------------------------------------
FROM ${NODE_IMAGE} AS kluctl
# Date such as 20260101T000000Z: installs the packages of that date; if empty, the current ones.
ARG APT_SNAPSHOT
COPY --chmod=0755 image/apt-snapshot /usr/local/sbin/apt-snapshot
RUN apt-snapshot "${APT_SNAPSHOT:-}" \
 && apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates curl \
 && rm -rf /var/lib/apt/lists/*
ARG KLUCTL_VERSION=2.28.2
# May be a mirror: the checksum ensures that the files are the same.
ARG KLUCTL_RELEASES=https://github.com/kluctl/kluctl/releases/download
# No defaults: the person who builds the image states the checksum for each architecture that is built.
ARG KLUCTL_SHA256_AMD64
ARG KLUCTL_SHA256_ARM64
ARG TARGETARCH
RUN set -eu; \
    architecture="${TARGETARCH:-$(dpkg --print-architecture)}"; \
    case "$architecture" in \
      amd64) argument=KLUCTL_SHA256_AMD64; sha256="${KLUCTL_SHA256_AMD64:-}" ;; \
      arm64) argument=KLUCTL_SHA256_ARM64; sha256="${KLUCTL_SHA256_ARM64:-}" ;; \
      *) echo "kluctl has no release for $architecture: build for amd64 or arm64" >&2; exit 1 ;; \
    esac; \
    release="$KLUCTL_RELEASES/v$KLUCTL_VERSION"; \
    archive="kluctl_v${KLUCTL_VERSION}_linux_$architecture.tar.gz"; \
    if [ -z "$sha256" ]; then \
      echo "the checksum of $archive is missing: pass --build-arg $argument=..., it is listed in" >&2; \
      echo "$release/kluctl_v${KLUCTL_VERSION}_checksums.txt" >&2; \
      exit 1; \
    fi; \
    curl --fail --silent --show-error --location --retry 3 --output "/tmp/$archive" "$release/$archive"; \
    echo "$sha256  /tmp/$archive" > /tmp/sha256; \
    sha256sum --check --strict /tmp/sha256; \
    tar --extract --gzip --no-same-owner --file "/tmp/$archive" --directory /usr/local/bin kluctl; \
    rm "/tmp/$archive" /tmp/sha256; \
    chmod 0755 /usr/local/bin/kluctl; \
    kluctl version --no-update-check

# On its first run, kluctl unpacks a Python of its own, and Python compiles what it imports. This takes seconds and is done
# here once. `render` imports more than any other command that needs no cluster. The imported modules are compiled again
# without a check of their modification times, which a layer may change. The server finds the result in
# TOWLINE_KLUCTL_UNPACKED_DIR and only reads it. kluctl up to 2.22 unpacks into TMPDIR, newer versions into their cache
# directory.
COPY examples/shop /build/shop
RUN set -eu; \
    unpacked=/usr/local/lib/towline/unpacked; \
    mkdir -p "$unpacked/python" "$unpacked/tmp" /build/cache /build/home; \
    ln -s "$unpacked/python" /build/cache/go-embed-jinja2; \
    HOME=/build/home TMPDIR="$unpacked/tmp" KLUCTL_BASE_TMP_DIR=/build/base KLUCTL_CACHE_DIR=/build/cache \
      kluctl render --no-update-check --no-color --project-dir /build/shop --target staging \
      --offline-kubernetes --render-output-dir /build/rendered; \
    find "$unpacked/tmp" -mindepth 1 -maxdepth 1 ! -name 'go-embedded-*' -exec rm -rf '{}' +; \
    find "$unpacked" -maxdepth 2 -name '*.lock' -delete; \
    find "$unpacked" -name '*.pyc' > /build/compiled; \
    sed 's|/__pycache__/\([^/]*\)\.cpython-[0-9]*\.pyc$|/\1.py|' /build/compiled > /build/imported; \
    python="$(find "$unpacked" -type f -regex '.*/bin/python3\.[0-9]+')"; \
    "$python" -m compileall -q -f --invalidation-mode unchecked-hash -i /build/imported; \
    chmod --recursive u=rwX,go=rX "$unpacked"; \
    rm -rf /build

# ---------------------------------------------------------------------------------------------------------------------
# The program that renders Flux's Kustomizations, compiled natively for the architecture of the image. Debian's go obtains the
# release of Go that is named here. It checks that release by Go's checksum database, and the modules by go.sum.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS flux-render
ARG APT_SNAPSHOT
COPY --chmod=0755 image/apt-snapshot /usr/local/sbin/apt-snapshot
RUN apt-snapshot "${APT_SNAPSHOT:-}" \
 && apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates golang-go \
 && rm -rf /var/lib/apt/lists/*
ENV GOTOOLCHAIN=go1.26.8 \
    CGO_ENABLED=0
WORKDIR /build
COPY flux-render/go.mod flux-render/go.sum ./
RUN go mod download
COPY flux-render ./
ARG TARGETARCH
RUN GOARCH="${TARGETARCH:-}" go build -mod=readonly -buildvcs=false -trimpath -ldflags "-s -w" -o towline-flux . \
 && chmod 0755 towline-flux

# ---------------------------------------------------------------------------------------------------------------------
FROM ${NODE_IMAGE}

# git, ssh and gpg are for sources; setpriv (util-linux) and bash for the watchdog that ends kluctl with the server; tini
# reaps orphaned processes; valkey-server is the private queue if no Redis is configured. npm is no longer needed.
#
# The writable directories belong to group 0, so that the image also runs under another uid with group 0. ssh refuses to
# run for a uid without a name, hence libnss-unknown; it is installed last, because useradd finds every uid in use then.
ARG APT_SNAPSHOT
COPY --chmod=0755 image/apt-snapshot /usr/local/sbin/apt-snapshot
RUN apt-snapshot "${APT_SNAPSHOT:-}" \
 && apt-get update \
 && apt-get install --yes --no-install-recommends \
      bash ca-certificates git gpg gpg-agent openssh-client tini tzdata util-linux valkey-server \
 && useradd --uid 65532 --gid 0 --no-create-home --home-dir /var/lib/towline --shell /usr/sbin/nologin towline \
 && apt-get install --yes --no-install-recommends libnss-unknown \
 && rm -rf /usr/local/sbin/apt-snapshot /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log /var/log/alternatives.log \
      /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack \
      /opt/yarn-* /usr/local/bin/yarn /usr/local/bin/yarnpkg \
 && touch /etc/ssh/ssh_known_hosts \
 && install --directory --owner=65532 --group=0 --mode=0770 /var/lib/towline /var/cache/kluctl \
 && ln -s /app/dist/src/cli.js /usr/local/bin/towline

# Ordered from rarely to often changed files. All belong to root, so that the server cannot modify its own code.
COPY --from=kluctl /usr/local/lib/towline/unpacked /usr/local/lib/towline/unpacked
COPY --from=kluctl /usr/local/bin/kluctl /usr/local/lib/towline/kluctl
COPY --from=flux-render /build/towline-flux /usr/local/bin/towline-flux
# The pods of kluctl's controller run `kluctl controller run`: with this, they need only another image to run Towline.
COPY --chmod=0755 image/kluctl /usr/local/bin/kluctl
COPY --chmod=0644 image/health.mjs /usr/local/lib/towline/health.mjs
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/LICENSE /app/package.json ./
COPY --from=build /app/dist dist

ENV NODE_ENV=production \
    HOME=/var/lib/towline \
    TOWLINE_DATA_DIR=/var/lib/towline \
    TOWLINE_KLUCTL=/usr/local/lib/towline/kluctl \
    TOWLINE_KLUCTL_UNPACKED_DIR=/usr/local/lib/towline/unpacked \
    TOWLINE_KLUCTL_CACHE_DIR=/var/cache/kluctl

# Numeric, so that Kubernetes can verify that it is not root.
USER 65532:0

# The server writes only below these three, so the root file system can be read-only. They may be empty volumes.
VOLUME ["/var/lib/towline", "/var/cache/kluctl", "/tmp"]

# 8080: webhooks. 9090: health and metrics, not for the internet.
EXPOSE 8080 9090
HEALTHCHECK --interval=15s --timeout=3s --start-period=30s --retries=3 \
  CMD ["node", "/usr/local/lib/towline/health.mjs"]

ARG REVISION
ARG VERSION
LABEL org.opencontainers.image.title="Towline" \
      org.opencontainers.image.description="A GitOps server for kluctl" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"

ENTRYPOINT ["/usr/bin/tini", "--", "node", "/app/dist/src/cli.js"]
CMD ["serve"]
