/**
 * In which form the API server is asked to answer: JSON. In tables and protobuf no Secret could be found to be masked. Pure.
 */
import { Refusal } from "./refusal.ts";

const json = "application/json";

/** Beside plain JSON. */
const forms: Readonly<Record<"secret" | "resource" | "discovery" | "schema", readonly string[]>> = {
  // Of metadata alone nobody could tell which annotation holds a value.
  secret: [],
  resource: ["PartialObjectMetadata", "PartialObjectMetadataList"].map((as) => `${json};as=${as};g=meta.k8s.io;v=v1`),
  discovery: ["v2", "v2beta1"].map((v) => `${json};as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=${v}`),
  // Says what kinds look like, never what an object holds.
  schema: ["v2", "v3"].map((v) => `application/com.github.proto-openapi.spec.${v}@v1.0+protobuf`),
};

/** What of it may be answered, in the client's order. Throws Refusal if that is nothing. */
export function negotiate(accept: string | undefined, what: keyof typeof forms): string {
  const wanted = (accept ?? "*/*").split(",").map(toForm);
  const allowed = wanted.flatMap((form) => {
    if (["*/*", "application/*", json].includes(form)) return [json];
    return forms[what].filter((one) => toForm(one) === form);
  });
  if (allowed.length === 0) throw new Refusal(406, `a preview gets responses as ${json} only`);
  return [...new Set(allowed)].join(",");
}

/** Parameters in one order, and without those that only say how much it is liked. */
function toForm(text: string): string {
  const [type = "", ...parameters] = text.split(";").map((part) => part.trim());
  const said = parameters.filter((each) => !/^(?:q|charset|pretty)=/i.test(each));
  return [type.toLowerCase(), ...said.toSorted()].join(";");
}

export function isJson(contentType: string | undefined): boolean {
  return contentType?.split(";", 1)[0]?.trim().toLowerCase() === json;
}
