/**
 * Restricts the formats in which the API server may respond to JSON. In tables and protobuf, Secrets could not be found
 * and masked. Pure.
 */
import { Refusal } from "./refusal.ts";

const json = "application/json";

/** Allowed besides plain JSON. */
const forms: Readonly<Record<"secret" | "resource" | "discovery" | "schema", readonly string[]>> = {
  // Metadata alone does not show which annotation contains a value of the Secret.
  secret: [],
  resource: ["PartialObjectMetadata", "PartialObjectMetadataList"].map((as) => `${json};as=${as};g=meta.k8s.io;v=v1`),
  discovery: ["v2", "v2beta1"].map((v) => `${json};as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=${v}`),
  // Schemas describe kinds and never contain an object's values.
  schema: ["v2", "v3"].map((v) => `application/com.github.proto-openapi.spec.${v}@v1.0+protobuf`),
};

/** Returns the allowed part of the Accept header, in the client's order. Throws Refusal if nothing is left. */
export function negotiate(accept: string | undefined, what: keyof typeof forms): string {
  const wanted = (accept ?? "*/*").split(",").map(toForm);
  const allowed = wanted.flatMap((form) => {
    if (["*/*", "application/*", json].includes(form)) return [json];
    return forms[what].filter((one) => toForm(one) === form);
  });
  if (allowed.length === 0) throw new Refusal(406, `a preview gets responses as ${json} only`);
  return [...new Set(allowed)].join(",");
}

/** Normalizes a media type: sorts its parameters and drops those that do not affect the format. */
function toForm(text: string): string {
  const [type = "", ...parameters] = text.split(";").map((part) => part.trim());
  const said = parameters.filter((each) => !/^(?:q|charset|pretty)=/i.test(each));
  return [type.toLowerCase(), ...said.toSorted()].join(";");
}

export function isJson(contentType: string | undefined): boolean {
  return contentType?.split(";", 1)[0]?.trim().toLowerCase() === json;
}
