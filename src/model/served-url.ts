/** Where users reach what a project deploys, from its Ingresses and HTTPRoutes. Pure. */
import { z } from "zod";
import { compareText } from "../kit/compare-text.ts";
import { parseJson } from "../kit/json.ts";
import type { ObjectRef, ResultObject } from "./result.ts";

/** GitLab's limit for the link of an environment. */
const longestUrl = 255;

const text = z.string().optional().catch(undefined);

const Ingress = z.object({
  spec: z.object({
    rules: z
      .array(
        z.object({
          host: text,
          http: z
            .object({ paths: z.array(z.object({ path: text, pathType: text })).catch([]) })
            .optional()
            .catch(undefined),
        }),
      )
      .catch([]),
    tls: z.array(z.unknown()).catch([]),
  }),
});

const HttpRoute = z.object({
  spec: z.object({
    hostnames: z.array(z.string()).catch([]),
    parentRefs: z.array(z.object({ sectionName: text, port: z.number().optional().catch(undefined) })).catch([]),
    rules: z
      .array(
        z.object({
          matches: z
            .array(z.object({ path: z.object({ type: text, value: text }).optional().catch(undefined) }))
            .catch([]),
        }),
      )
      .catch([]),
  }),
});

/**
 * The URL of the first host of the first Ingress, or else of the first HTTPRoute, in the order of their names: then it does not
 * depend on the order in which they are deployed. Hosts with wildcards are left out. `undefined`: there is none.
 */
export function servedUrlOf(objects: readonly ResultObject[]): string | undefined {
  const rendered = objects.filter((object) => object.rendered !== undefined);
  const urls = [
    ...ofKind(rendered, "networking.k8s.io", "Ingress").flatMap((object) => urlOfIngress(object) ?? []),
    ...ofKind(rendered, "gateway.networking.k8s.io", "HTTPRoute").flatMap((object) => urlOfRoute(object) ?? []),
  ];
  return urls.find((url) => url.length <= longestUrl);
}

function ofKind(objects: readonly ResultObject[], group: string, kind: string): unknown[] {
  return objects
    .filter(({ ref }) => ref.group === group && ref.kind === kind)
    .toSorted((a, b) => compareText(nameOf(a.ref), nameOf(b.ref)))
    .map(({ rendered = "" }) => parseJson(rendered));
}

function nameOf({ namespace = "", name }: ObjectRef): string {
  return `${namespace}/${name}`;
}

function urlOfIngress(object: unknown): string | undefined {
  const spec = Ingress.safeParse(object).data?.spec;
  const rule = spec?.rules.find(({ host }) => isHost(host));
  if (spec === undefined || rule === undefined) return undefined;
  // TLS that ends before the cluster cannot be seen here; then the host redirects.
  const [first] = rule.http?.paths ?? [];
  const path = first?.pathType === "Prefix" || first?.pathType === "Exact" ? first.path : undefined;
  return toUrl(spec.tls.length > 0 ? "https" : "http", rule.host, path);
}

function urlOfRoute(object: unknown): string | undefined {
  const spec = HttpRoute.safeParse(object).data?.spec;
  const host = spec?.hostnames.find(isHost);
  if (spec === undefined || host === undefined) return undefined;
  // The listener says which protocol it is, but only its name or port is known here.
  const isPlain =
    spec.parentRefs.length > 0 &&
    spec.parentRefs.every((parent) => parent.sectionName === "http" || parent.port === 80);
  const path = spec.rules[0]?.matches[0]?.path;
  return toUrl(isPlain ? "http" : "https", host, path?.type === "RegularExpression" ? undefined : path?.value);
}

function isHost(host: string | undefined): host is string {
  return host !== undefined && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(host);
}

function toUrl(scheme: "http" | "https", host: string | undefined, path = "/"): string | undefined {
  return URL.parse(`${scheme}://${host}${path.startsWith("/") ? path : "/"}`)?.href;
}
