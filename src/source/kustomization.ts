/** Where a kustomization has a template that may become the name of something remote. Reads lines, since a template is not YAML yet. Pure. */

/** Fields in which kustomize looks for nothing. */
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
/** Of these, only what is in the lists of files. */
const generators = new Set(["configMapGenerator", "secretGenerator"]);
const harmlessOfGenerator = new Set(["behavior", "literals", "name", "namespace", "options", "type"]);

/** Chooses or repeats what stands there, and says nothing itself. */
const statement = /\{%[-+]?\s*(?:if|elif|else|endif|for|endfor|set|endset|raw|endraw)\b[^{}]*%\}|\{#.*?#\}/g;

/** The first line of that kind. */
export function findTemplatedResource(text: string): string | undefined {
  let field = "";
  let inner = "";
  for (const line of text.split("\n")) {
    const key = /^["']?(\w+)["']?\s*:/.exec(line)?.[1];
    if (key !== undefined) [field, inner] = [key, ""];
    else inner = /^\s*(?:-\s+)?["']?(\w+)["']?\s*:/.exec(line)?.[1] ?? inner;
    const said = line.replace(statement, "");
    if (!/\{[{%]/.test(said)) continue;
    // Anything may follow from another statement, such as an include; or from a field whose name is not known yet.
    const isOpen = said.includes("{%") || (key === undefined && !/^[\s#-]/.test(said));
    const isHarmless = harmless.has(field) || (generators.has(field) && harmlessOfGenerator.has(inner));
    if (isOpen || !isHarmless) return line.trim();
  }
  return undefined;
}
