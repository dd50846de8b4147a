/** The schema of the connection to Redis (`redis` in the configuration). */
import { z } from "zod";
import { text } from "./schema-parts.ts";
import { path, redisUrl, secret, sentinel } from "./schema-values.ts";

export const redisSchema = z.strictObject({
  url: redisUrl.optional().meta({
    secret: true,
    defaultText: "a private Redis",
    description:
      "URL of Redis: `redis://`, `rediss://` (TLS) or `unix://`. Without it Towline starts a private Redis, which supports one replica only.",
  }),
  urlFile: path.optional().meta({ description: "File to read the URL from." }),
  password: secret
    .optional()
    .meta({ secret: true, description: "Password for `redis.url`, to keep it out of the URL." }),
  passwordFile: path.optional().meta({ description: "File to read the password from." }),
  caFile: path.optional().meta({
    defaultText: "Node's certificate authorities",
    description: "File (PEM) with the certificate authorities of Redis and its sentinels.",
  }),
  sentinels: z.array(sentinel, { error: "must be a list" }).prefault([]).meta({
    description:
      "Redis Sentinels, as `host:port`. The host of `redis.url` is then the name of the master: `redis://mymaster`.",
  }),
  sentinelPassword: secret.optional().meta({ secret: true, description: "Password of the sentinels." }),
  sentinelPasswordFile: path.optional().meta({ description: "File to read the sentinels' password from." }),
  prefix: text
    .regex(/^[\w.-]+$/, 'must consist of letters, digits, "_", "." and "-"')
    .prefault("towline")
    .meta({ description: "Prefix of all keys. Servers with the same prefix share one queue." }),
  server: path.optional().meta({
    defaultText: "`redis-server` or `valkey-server` on PATH",
    description: "Executable of the private Redis.",
  }),
});
