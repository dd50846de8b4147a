/** Secrets in what a stored result was rendered from. */
import { expect, test } from "vitest";
import { showStored } from "../../../src/app/show-stored.ts";

const value = "hunter2-is-the-password";

function stored(secret: object, { warnings = [] as readonly object[] } = {}) {
  const json = (document: unknown) => Buffer.from(JSON.stringify(document));
  const helmChart = { repo: `https://charts.test/${value}/stable`, chartName: "web", chartVersion: "1.2.3" };
  const deployment = { deployments: [{ renderedHelmChartConfig: { helmChart } }] };
  const compactedObjects = [{ ref: { version: "v1", kind: "Secret", name: "login", namespace: "shop" }, ...secret }];
  return { reducedResult: json({ deployment, warnings }), compactedObjects: json(compactedObjects) };
}

const whole = (object: object) => `full: ${JSON.stringify(object)}`;
const rendered = whole({ kind: "Secret", stringData: { password: value } });

test("a secret in the URL of a chart is masked, whether it is one of the result's or the server's", async () => {
  for (const [result, known] of [
    [stored({ rendered }), []],
    [stored({ rendered: whole({}) }), [value]],
  ] as const) {
    const { renderedFrom } = await showStored(result, known);
    expect(renderedFrom).toEqual([expect.stringMatching(/^chart web https:.*version 1\.2\.3$/)]);
    expect(JSON.stringify(renderedFrom)).not.toContain(value);
  }
});

test("if the secrets of a result are unknown, it does not show what it was rendered from", async () => {
  const message = "The result was too large to be stored completely";
  const shortened = stored({ rendered }, { warnings: [{ ref: { kind: "", name: "" }, message }] });
  for (const result of [stored({}), shortened]) expect((await showStored(result, [])).renderedFrom).toBeUndefined();
  expect((await showStored(stored({ rendered }), [])).renderedFrom).toHaveLength(1);
});
