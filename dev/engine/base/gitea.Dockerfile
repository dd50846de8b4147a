# Gitea's own Dockerfile.rootless on Debian, with its own scripts; the templates are beside the program.
ARG DEBIAN
FROM ${DEBIAN}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
      bash ca-certificates curl dumb-init gettext-base git gnupg openssh-client \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --system --gid 1000 git \
 && useradd --system --uid 1000 --gid git --no-create-home --home-dir /var/lib/gitea/git --shell /bin/bash git \
 && install --directory --owner=git --group=git /var/lib/gitea /etc/gitea
COPY rootless /
COPY gitea /app/gitea
USER 1000:1000
ENV GITEA_WORK_DIR=/var/lib/gitea \
    GITEA_CUSTOM=/var/lib/gitea/custom \
    GITEA_TEMP=/tmp/gitea \
    TMPDIR=/tmp/gitea \
    GITEA_APP_INI=/etc/gitea/app.ini \
    HOME=/var/lib/gitea/git \
    GITEA__server__STATIC_ROOT_PATH=/app/gitea
VOLUME ["/var/lib/gitea", "/etc/gitea"]
WORKDIR /var/lib/gitea
ENTRYPOINT ["/usr/bin/dumb-init", "--", "/usr/local/bin/docker-entrypoint.sh"]
CMD []
