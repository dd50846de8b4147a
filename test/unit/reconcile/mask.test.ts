import fc from "fast-check";
import { expect, test } from "vitest";
import { afterDeploy } from "../../../src/reconcile/results.ts";
import { maskResult } from "../../../src/reconcile/mask.ts";
import { aResult, anObject } from "../../support/deployments.ts";

const secret = "hunter2-canary";
const encoded = Buffer.from(secret).toString("base64");

function withSecret(value: string) {
  const data = { password: Buffer.from(value).toString("base64") };
  return anObject({
    ref: { version: "v1", kind: "Secret", name: "db", namespace: "shop" },
    rendered: JSON.stringify({ apiVersion: "v1", kind: "Secret", metadata: { name: "db" }, data }),
    changes: [
      {
        type: "update",
        jsonPath: "data.password",
        oldValue: "b2xk",
        newValue: data.password,
        unifiedDiff: `-b2xk\n+${data.password}`,
      },
    ],
  });
}

/** What leaves is changes, errors and warnings; the objects' own JSON is for the store only. */
function visible(result: ReturnType<typeof maskResult>): string {
  return JSON.stringify([result.objects.map(({ changes }) => changes), result.errors, result.warnings]);
}

test("a Secret's change says that it changed, not what it is", () => {
  const masked = maskResult(aResult({ objects: [withSecret(secret)] }));
  expect(masked.objects[0]?.changes[0]).toMatchObject({
    jsonPath: "data.password",
    oldValue: "*****",
    newValue: "*****",
  });
  expect(visible(masked)).not.toContain(encoded);
});

test("labels of a Secret stay readable", () => {
  const object = anObject({
    ref: { version: "v1", kind: "Secret", name: "db" },
    changes: [{ type: "insert", jsonPath: "metadata.labels.team", newValue: "payments" }],
  });
  expect(maskResult(aResult({ objects: [object] })).objects[0]?.changes[0]?.newValue).toBe("payments");
});

test("a Secret's value is found wherever it was templated into, and in whatever spelling", () => {
  const object = anObject({
    changes: [
      {
        type: "update",
        jsonPath: "data.url",
        oldValue: "x",
        newValue: `postgres://app:${secret}@db`,
        unifiedDiff: `+${secret}`,
      },
    ],
  });
  const errors = [
    { ref: { kind: "", name: "" }, message: `cannot use ${secret} or ${encoded} or ${encodeURIComponent(secret)}` },
  ];
  const masked = maskResult(aResult({ objects: [withSecret(secret), object], errors, warnings: errors }));
  expect(visible(masked)).not.toContain(secret);
  expect(visible(masked)).not.toContain(encoded);
});

test("what is left to differ after a deploy is masked by all of its Secrets, also by those that do not differ", () => {
  const ref = { kind: "Service", name: "web" };
  const errors = [{ ref, message: `labels: Invalid value: "!${secret}"` }];
  const result = aResult({ objects: [{ ...withSecret(secret), changes: [] }, anObject({ ref })], errors });
  const left = afterDeploy(result, false);
  expect(left.objects.map((object) => object.ref.kind)).toEqual(["Service"]);
  expect(left.errors).toHaveLength(1);
  expect(visible(maskResult(left))).not.toContain(secret);
});

test("each line of a multi-line secret is masked", () => {
  const pem = "-----BEGIN KEY-----\ncanary-line-one\ncanary-line-two\n-----END KEY-----";
  const errors = [{ ref: { kind: "", name: "" }, message: "bad key near canary-line-two" }];
  expect(visible(maskResult(aResult({ objects: [withSecret(pem)], errors })))).not.toContain("canary-line-two");
});

test("no secret of six characters or more survives, whatever it is made of", () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 6, unit: "binary" }).filter((value) => !'*****,[]{}":\\'.includes(value)),
      (value) => {
        const object = anObject({ changes: [{ type: "insert", jsonPath: "data.x", newValue: `a ${value} b` }] });
        const masked = maskResult(aResult({ objects: [withSecret(value), object] }));
        const text = String(masked.objects[1]?.changes[0]?.newValue);
        expect(text).not.toContain(` ${value} `);
      },
    ),
  );
});

test("a secret that reads like one of kluctl's own words leaves those as they are", () => {
  const object = anObject({ changes: [{ type: "update", jsonPath: "data.a", oldValue: "1", newValue: "update now" }] });
  expect(maskResult(aResult({ objects: [withSecret("update"), object] })).objects[1]?.changes[0]).toEqual({
    type: "update",
    jsonPath: "data.a",
    oldValue: "1",
    newValue: "***** now",
  });
});
