import { expect, test } from "vitest";
import type { ResultObject } from "../../../src/model.ts";
import { servedUrlOf } from "../../../src/model/served-url.ts";

function anObject(group: string, kind: string, name: string, spec: unknown): ResultObject {
  const flags = { changes: [], new: false, orphan: false, deleted: false, hook: false };
  const ref = { group, kind, name, namespace: "shop" };
  return { ref, ...flags, rendered: JSON.stringify({ kind, metadata: { name, namespace: "shop" }, spec }) };
}
const ingress = (spec: unknown, name = "web") => anObject("networking.k8s.io", "Ingress", name, spec);
const route = (spec: unknown, name = "web") => anObject("gateway.networking.k8s.io", "HTTPRoute", name, spec);
const path = (text: string, pathType = "Prefix") => ({ paths: [{ path: text, pathType }] });

test.each<[string, unknown, string | undefined]>([
  ["without TLS", { rules: [{ host: "shop.example.com" }] }, "http://shop.example.com/"],
  ["with TLS", { rules: [{ host: "shop.example.com" }], tls: [{}] }, "https://shop.example.com/"],
  ["a path", { rules: [{ host: "example.com", http: path("/shop") }] }, "http://example.com/shop"],
  [
    "a pattern",
    { rules: [{ host: "example.com", http: path("/s(.*)", "ImplementationSpecific") }] },
    "http://example.com/",
  ],
  [
    "a path like a host",
    { rules: [{ host: "example.com", http: path("//other.example/x") }] },
    "http://example.com//other.example/x",
  ],
  ["a wildcard", { rules: [{ host: "*.example.com" }, { host: "b.example.com" }] }, "http://b.example.com/"],
  ["no host", { rules: [{ http: path("/") }] }, undefined],
  ["a template's leftovers", { rules: [{ host: "{{ host }}" }, "x", null] }, undefined],
  ["no rules", { defaultBackend: {} }, undefined],
  ["nothing", undefined, undefined],
])("an Ingress with %s", (_name, spec, url) => {
  expect(servedUrlOf([ingress(spec)])).toBe(url);
});

test.each<[string, unknown, string | undefined]>([
  ["a host", { hostnames: ["shop.example.com"] }, "https://shop.example.com/"],
  [
    "a listener of its own",
    { hostnames: ["a.example.com"], parentRefs: [{ sectionName: "http" }] },
    "http://a.example.com/",
  ],
  ["port 80", { hostnames: ["a.example.com"], parentRefs: [{ port: 80 }] }, "http://a.example.com/"],
  [
    "both",
    { hostnames: ["a.example.com"], parentRefs: [{ port: 80 }, { sectionName: "https" }] },
    "https://a.example.com/",
  ],
  [
    "a path",
    { hostnames: ["a.example.com"], rules: [{ matches: [{ path: { type: "PathPrefix", value: "/x" } }] }] },
    "https://a.example.com/x",
  ],
  [
    "a pattern",
    { hostnames: ["a.example.com"], rules: [{ matches: [{ path: { type: "RegularExpression", value: "/x.*" } }] }] },
    "https://a.example.com/",
  ],
  ["no host", { parentRefs: [{ name: "gateway" }] }, undefined],
])("an HTTPRoute with %s", (_name, spec, url) => {
  expect(servedUrlOf([route(spec)])).toBe(url);
});

test("the first Ingress in the order of their names counts, before any route, whatever is deployed first", () => {
  const host = (name: string) => ({ rules: [{ host: `${name}.example.com` }] });
  const objects = [route({ hostnames: ["a.example.com"] }), ingress(host("z"), "z"), ingress(host("b"), "b")];
  expect(servedUrlOf(objects)).toBe("http://b.example.com/");
  expect(servedUrlOf([...objects].reverse())).toBe("http://b.example.com/");
  expect(servedUrlOf([{ ...ingress(host("a")), rendered: undefined }, ...objects])).toBe("http://b.example.com/");
  expect(servedUrlOf([{ ...ingress(host("a")), rendered: "{" }, ...objects])).toBe("http://b.example.com/");
});
