/**
 * Finds templates in a kustomization that may become the name of a remote resource. It works line by line, because a
 * template is not valid YAML until it is rendered. Pure.
 */

/** Fields from which kustomize loads nothing. */
const harmless = new Set([
  "apiVersion",
  "buildMetadata",
  "commonAnnotations",
  "commonLabels",
  "generatorOptions",
  "images",
  "kind",
  "labels",
  "metadata",
  "namePrefix",
  "nameSuffix",
  "namespace",
  "replicas",
  "sortOptions",
]);
/** In generators, only their lists of files matter. */
const generators = new Set(["configMapGenerator", "secretGenerator"]);
const harmlessOfGenerator = new Set(["behavior", "literals", "name", "namespace", "options", "type"]);

/** Statements that only select or repeat text of the file and produce none themselves, and comments. */
const statement = /\{%[-+]?\s*(?:if|elif|else|endif|for|endfor|set|endset|raw|endraw)\b[^{}]*%\}|\{#.*?#\}/g;

/** Returns the first line with such a template. */
export function findTemplatedResource(text: string): string | undefined {
  let field = "";
  let inner = "";
  for (const line of text.split("\n")) {
    const key = /^["']?(\w+)["']?\s*:/.exec(line)?.[1];
    if (key !== undefined) [field, inner] = [key, ""];
    else inner = /^\s*(?:-\s+)?["']?(\w+)["']?\s*:/.exec(line)?.[1] ?? inner;
    const said = line.replace(statement, "");
    if (!/\{[{%]/.test(said)) continue;
    // Other statements, such as an include, can produce anything; so can a template in the place of a field's name.
    const isOpen = said.includes("{%") || (key === undefined && !/^[\s#-]/.test(said));
    const isHarmless = harmless.has(field) || (generators.has(field) && harmlessOfGenerator.has(inner));
    if (isOpen || !isHarmless) return line.trim();
  }
  return undefined;
}
