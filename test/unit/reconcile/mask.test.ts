import fc from "fast-check";
import { expect, test } from "vitest";
import { afterDeploy } from "../../../src/reconcile/status/results.ts";
import { maskResult } from "../../../src/redact/mask-result.ts";
import { aResult, anObject } from "../../support/deployments.ts";

const secret = "hunter2-canary";
const encoded = Buffer.from(secret).toString("base64");

function withSecret(value: string) {
  const data = { password: Buffer.from(value).toString("base64") };
  return anObject({
    ref: { version: "v1", kind: "Secret", name: "db", namespace: "shop" },
    rendered: JSON.stringify({ apiVersion: "v1", kind: "Secret", metadata: { name: "db" }, data }),
    remote: JSON.stringify({ data: { password: "b2xk" } }),
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

/**
 * The parts of a result that leave the server: changes, errors and warnings. The objects' own JSON is for the store
 * only.
 */
function visible(result: ReturnType<typeof maskResult>): string {
  return JSON.stringify([result.objects.map(({ changes }) => changes), result.errors, result.warnings]);
}

test("a change of a Secret's value is shown without the value", () => {
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
    remote: "{}",
    changes: [{ type: "insert", jsonPath: "metadata.labels.team", newValue: "payments" }],
  });
  expect(maskResult(aResult({ objects: [object] })).objects[0]?.changes[0]?.newValue).toBe("payments");
});

test("a Secret's value is masked wherever a template inserted it, in any encoding", () => {
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

test("differences that remain after a deploy are masked with all of its Secrets, also the unchanged ones", () => {
  const ref = { kind: "Service", name: "web" };
  const errors = [{ ref, message: `labels: Invalid value: "!${secret}"` }];
  const result = aResult({ objects: [{ ...withSecret(secret), changes: [] }, anObject({ ref })], errors });
  const left = afterDeploy(maskResult(result), false);
  expect(left.objects.map((object) => object.ref.kind)).toEqual(["Service"]);
  expect(left.errors).toHaveLength(1);
  expect(visible(left)).not.toContain(secret);
});

test("each line of a multi-line secret is masked", () => {
  const pem = "-----BEGIN KEY-----\ncanary-line-one\ncanary-line-two\n-----END KEY-----";
  const errors = [{ ref: { kind: "", name: "" }, message: "bad key near canary-line-two" }];
  expect(visible(maskResult(aResult({ objects: [withSecret(pem)], errors })))).not.toContain("canary-line-two");
});

// fast-check's own "binary" takes seconds to set up.
const anyCharacter = fc
  .integer({ min: 0, max: 0x10_ff_ff })
  .filter((point) => point < 0xd8_00 || point > 0xdf_ff)
  .map((point) => String.fromCodePoint(point));

test("every secret of at least six visible characters is masked", () => {
  fc.assert(
    fc.property(
      fc
        .string({ minLength: 6, unit: anyCharacter })
        .filter((value) => value.replace(/[\s\\"'*\p{C}\p{Z}]/gu, "").length >= 6),
      (value) => {
        const object = anObject({ changes: [{ type: "insert", jsonPath: "data.x", newValue: `a ${value} b` }] });
        const masked = maskResult(aResult({ objects: [withSecret(value), object] }));
        const text = String(masked.objects[1]?.changes[0]?.newValue);
        expect(text).not.toContain(` ${value} `);
      },
    ),
  );
});

test("a secret that equals one of kluctl's own words does not mask that word", () => {
  const object = anObject({ changes: [{ type: "update", jsonPath: "data.a", oldValue: "1", newValue: "update now" }] });
  expect(maskResult(aResult({ objects: [withSecret("update"), object] })).objects[1]?.changes[0]).toEqual({
    type: "update",
    jsonPath: "data.a",
    oldValue: "1",
    newValue: "***** now",
  });
});

test("a long text with a changed hidden line still shows that the line changed, and the lines around it", () => {
  const text = (password: string, port: number) => `host: db\npassword: ${password}\nport: ${port}`;
  const object = anObject({
    changes: [
      {
        type: "update",
        jsonPath: "data.conf",
        oldValue: text("b2xk", 1),
        newValue: text(secret, 2),
        unifiedDiff: ` host: db\n-password: b2xk\n-port: 1\n+password: ${secret}\n+port: 2`,
      },
    ],
  });
  expect(maskResult(aResult({ objects: [withSecret(secret), object] })).objects[1]?.changes[0]?.unifiedDiff).toBe(
    " host: db\n-password: b2xk\n-port: 1\n+password: *****\n+port: 2",
  );
});

test("base64 over several lines is masked in a diff that separates its lines", () => {
  const long = `${secret}-`.repeat(12);
  const wrap = (text: string) => Buffer.from(text).toString("base64").replace(/.{76}/g, "$&\n");
  const [oldValue, newValue] = [wrap(`${long}1`), wrap(`2${long}`)];
  const torn = newValue.split("\n").flatMap((line, i) => [`-${oldValue.split("\n")[i]}`, `+${line}`]);
  const object = anObject({
    changes: [{ type: "update", jsonPath: "data.a", oldValue, newValue, unifiedDiff: torn.join("\n") }],
  });
  const masked = visible(maskResult(aResult({ objects: [withSecret(long), object] })));
  for (const line of torn) expect(masked).not.toContain(line.slice(1, 20));
});

test("secret numbers and keys are masked too, and other values keep their type", () => {
  const value = { port: 5432, pin: 73219845, nothing: null, on: true, [secret]: [1.5] };
  const object = anObject({ changes: [{ type: "insert", jsonPath: "spec", newValue: value }] });
  const masked = maskResult(aResult({ objects: [withSecret("73219845"), withSecret(secret), object] }));
  expect(masked.objects[2]?.changes[0]?.newValue).toEqual({
    port: 5432,
    pin: "*****",
    nothing: null,
    on: true,
    "*****": [1.5],
  });
});

test("more text than can be searched in time is hidden as a whole, and the text before it is not", () => {
  const small = anObject({ changes: [{ type: "update", jsonPath: "data.a", oldValue: "one", newValue: "two" }] });
  const newValue = `${secret} `.repeat(200_000);
  const large = anObject({ changes: [{ type: "update", jsonPath: `data.${secret}`, oldValue: "one", newValue }] });
  const { objects } = maskResult(aResult({ objects: [withSecret(secret), small, large, small] }));
  expect(objects[1]?.changes).toEqual(small.changes);
  for (const object of objects.slice(2)) {
    expect(object.changes[0]).toMatchObject({ oldValue: "*****", newValue: "*****" });
  }
  expect(objects[2]?.changes[0]?.jsonPath).toBe("data.*****");
});

test("if a Secret's content cannot be read, no value and no message is shown", () => {
  const unreadable = { ...withSecret(secret), rendered: "not JSON" };
  const object = anObject({ changes: [{ type: "update", jsonPath: "data.a", oldValue: "one", newValue: "two" }] });
  const errors = [{ ref: object.ref, message: "something about one" }];
  const masked = maskResult(aResult({ objects: [unreadable, object], errors, warnings: errors }));
  expect(masked.objects[1]?.changes).toEqual([
    { type: "update", jsonPath: "data.a", oldValue: "*****", newValue: "*****" },
  ]);
  for (const { message } of [...masked.errors, ...masked.warnings]) expect(message).toMatch(/^\(not shown/);
});

test("vars that kluctl marks as sensitive are hidden everywhere, and other vars are not", () => {
  const sensitive = (renderedVars: object) => ({ file: "vars.yaml", renderedSensitive: true, renderedVars });
  const deployment = {
    vars: [
      sensitive({ db: { host: "hidden-host", ports: [54_321_000, 3] } }),
      { renderedVars: { zone: "shown-zone" } },
    ],
    deployments: [
      { path: "app", vars: [sensitive({ key: "hidden-key" })] },
      { include: "sub", renderedInclude: { vars: [sensitive({ deep: ["hidden-deep"] })], deployments: [] } },
    ],
  };
  const newValue = "hidden-host:54321000/hidden-key?hidden-deep@shown-zone, 3";
  const changes = [
    { type: "update", jsonPath: "data.url", oldValue: "", newValue, unifiedDiff: `+${newValue}` },
  ] as const;
  const result = aResult({ objects: [anObject({ changes })], errors: [{ ref: anObject().ref, message: newValue }] });
  const masked = maskResult({ ...result, document: { ...result.document, deployment } });
  expect(visible(masked)).not.toMatch(/hidden|54321/);
  expect(masked.objects[0]?.changes[0]?.newValue).toContain("@shown-zone, 3");
});
