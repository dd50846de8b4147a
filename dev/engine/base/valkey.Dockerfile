# The parts of the official Valkey image that docker-compose.yml relies on: its programs, a user, and /data.
ARG DEBIAN
FROM ${DEBIAN}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends valkey-server valkey-tools \
 && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner=valkey --group=valkey /data
VOLUME ["/data"]
WORKDIR /data
CMD ["valkey-server"]
