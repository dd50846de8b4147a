# What the official image of Node for Debian has, as far as the Dockerfile relies on it: Node, npm, and a user `node`.
ARG DEBIAN
FROM ${DEBIAN}
RUN useradd --uid 1000 --create-home --shell /bin/bash node
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
COPY etc /usr/local/etc
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
CMD ["node"]
