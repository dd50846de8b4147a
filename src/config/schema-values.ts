/** The values that keys of the configuration may have, and what is said of others. */
import { z } from "zod";
import { parseDuration } from "../kit/duration.ts";
import { parseHostRule, parseTarget } from "../kit/host-rule.ts";
import { bindAddressError, parseBindAddress } from "./bind-address.ts";
import { findNearest } from "../kit/nearest.ts";
import { isNetwork } from "./network.ts";
import { integer, secretText, text, written } from "./schema-parts.ts";
import { Secret } from "./secret.ts";

/** Long enough that it cannot be guessed, and no longer than what git hosts generate. */
export const shortestWebhookSecret = 16;
/** Longer, because every client that reaches the page can try to guess it. */
export const shortestToken = 24;
/** Path that an identity provider redirects to. */
export const loginCallbackPath = "/auth/callback";

export const path = text;
export const flag = z.boolean({ error: "must be true or false" });

export const secret = secretText.transform((value) => new Secret(value));

/** A secret of at least so many characters; `what` begins the sentence that says so. */
function longSecret(what: string, least: number) {
  return z
    .string({ error: "must be text: put it in quotes" })
    .trim()
    .min(least, `is too short: ${what} needs ${least} characters or more`)
    .transform((value) => new Secret(value));
}

export const webhookSecret = longSecret("a webhook secret", shortestWebhookSecret);
export const pageToken = longSecret("the page's token", shortestToken);
/** A client with this token can request renderings, or impersonate the runner. */
export const runnerToken = longSecret("the preview runner's token", shortestToken);
export const proxySecret = longSecret("the proxy's secret", shortestToken);

/** An IP address or a block of addresses. */
export const network = text.refine(isNetwork, 'must be an address like "10.0.0.7" or a block like "10.0.0.0/24"');

/** A host that previews may reach. */
export const hostRule = text.refine(
  (rule) => parseHostRule(rule) !== undefined,
  'must be a host like "charts.example.com", "charts.example.com:8443" or "*.example.com"',
);

/** Address of the preview runner: `host:port`, or `unix:` and the path of a socket. */
export const runnerAddress = text.transform((value, ctx) => {
  const found = parseSocketPath(value) ?? parseTarget(value);
  if (found !== undefined) return found;
  ctx.addIssue({
    code: "custom",
    message: 'must be an address like "towline-previews:8092" or "unix:/run/previews/socket"',
  });
  return z.NEVER;
});

/** Address that the preview runner listens on: like `runnerAddress`, with an optional host. */
export const runnerBindAddress = text.transform((value, ctx) => {
  const found = parseSocketPath(value) ?? parseBindAddress(value);
  if (typeof found === "object") return found;
  ctx.addIssue({
    code: "custom",
    message: 'must be an address like ":8092", "127.0.0.1:8092" or "unix:/run/previews/socket"',
  });
  return z.NEVER;
});

function parseSocketPath(value: string): { readonly path: string } | undefined {
  return /^unix:\/./.test(value) ? { path: value.slice("unix:".length) } : undefined;
}

export const appId = z
  .union([z.string().trim(), z.number()], { error: "must be the App's ID" })
  .transform(String)
  .refine((id) => /^[\w.]{1,100}$/.test(id), "must be the App's ID (a number) or its client ID");

export const privateKey = z
  .string({ error: "must be text: put it in quotes" })
  .trim()
  // Variables often contain line breaks as the two characters \ and n.
  .transform((value) => value.replaceAll("\\n", "\n"))
  .refine((value) => /^-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(value), "is not a private key in PEM form")
  .transform((value) => new Secret(value));

export const port = integer(0, 65_535);

/** One of several words; the message suggests the nearest one. */
export function oneOf<const Words extends readonly [string, ...string[]]>(words: Words) {
  return z.enum(words, {
    error: ({ input }) => {
      const list = words.map((word) => `"${word}"`).join(", ");
      if (typeof input !== "string") return `must be one of ${list}`;
      const nearest = findNearest(input, words);
      return `${JSON.stringify(input)} is not known; ${nearest ? `did you mean "${nearest}"?` : `it can be ${list}`}`;
    },
  });
}

const durationPattern = "^\\s*[+-]?(0|([0-9]*\\.?[0-9]*(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+)\\s*$";

/** A Go duration within bounds, as milliseconds. */
export function duration(least: string, most: string) {
  const [leastMs = 0, mostMs = 0] = [parseDuration(least), parseDuration(most)];
  const error = `must be a duration from ${least} to ${most}, like "30s" or "1m30s"`;
  return written(durationPattern, error).transform((value, ctx) => {
    const ms = parseDuration(value.trim());
    if (ms !== undefined && ms >= leastMs && ms <= mostMs) return ms;
    ctx.addIssue({ code: "custom", message: error });
    return z.NEVER;
  });
}

/** Address to listen on, in the form of kluctl's controller. `undefined`: disabled. */
export const bindAddress = text.transform((value, ctx) => {
  const address = parseBindAddress(value);
  if (address !== "wrong") return address;
  ctx.addIssue({ code: "custom", message: bindAddressError });
  return z.NEVER;
});

export const kubernetesName = text
  .max(63, "must have at most 63 characters")
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must be a Kubernetes name: lower-case letters, digits and -");

export const httpUrl = text.superRefine((value, ctx) => {
  const url = URL.parse(value);
  // The message does not quote the value, because URLs may contain credentials.
  if (url === null || !/^https?:$/.test(url.protocol))
    ctx.addIssue("must be a URL that begins with https:// or http://");
  else if (url.username !== "" || url.password !== "") ctx.addIssue("must not contain credentials: use the token");
});

/** Must be HTTPS, except on the loopback interface, because its answers identify users. */
export const issuerUrl = httpUrl.superRefine((value, ctx) => {
  const { protocol, hostname } = URL.parse(value) ?? {};
  if (protocol === "http:" && !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname ?? ""))
    ctx.addIssue("must begin with https://");
});

export const callbackUrl = httpUrl.refine((value) => {
  const { pathname, search, hash } = URL.parse(value) ?? {};
  return pathname === loginCallbackPath && !search && !hash;
}, `must end with ${loginCallbackPath}, such as https://towline.example.com${loginCallbackPath}`);

export const hostName = text.regex(/^(?:[\w.-]+|\[[0-9a-f:.]+\])$/i, "must be a host name without a port");

export const groups = z.array(text, { error: "must be a list" }).prefault([]);
export const claim = text.max(200, "must have at most 200 characters");

export const redisUrl = z
  .string({ error: "must be text" })
  .trim()
  .superRefine((value, ctx) => {
    const { protocol = "", password = "" } = URL.parse(value) ?? {};
    if (!["redis:", "rediss:", "unix:"].includes(protocol))
      ctx.addIssue("must be a URL that begins with redis://, rediss:// or unix://");
    else if (/%(?![0-9a-f]{2})/i.test(password))
      ctx.addIssue("has a password with an invalid % escape: write % as %25, or use redis.password");
  })
  .transform((value) => new Secret(value));

export const sentinel = text.regex(
  /^(?:\[[0-9a-fA-F:.]+\]|[^\s:[\]/@]+):\d{1,5}$/,
  'must be an address like "redis-0:26379"',
);
