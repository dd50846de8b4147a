# What the official image of Valkey has, as far as docker-compose.yml relies on it: its programs, a user, and /data.
ARG DEBIAN
FROM ${DEBIAN}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends valkey-server valkey-tools \
 && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner=valkey --group=valkey /data
VOLUME ["/data"]
WORKDIR /data
CMD ["valkey-server"]
