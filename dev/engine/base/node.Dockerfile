# The parts of the official Node image for Debian that the Dockerfile relies on: Node, npm, and a user `node`.
ARG DEBIAN
FROM ${DEBIAN}
RUN useradd --uid 1000 --create-home --shell /bin/bash node
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
COPY etc /usr/local/etc
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
CMD ["node"]
