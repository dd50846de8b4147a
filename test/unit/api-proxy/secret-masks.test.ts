import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse, stringify } from "yaml";
import { createGuesses } from "../../../src/api-proxy/guesses.ts";
import { createSecretMasks } from "../../../src/api-proxy/secret-masks.ts";

const base64 = (text: string | Buffer) => Buffer.from(text).toString("base64");

function createMasks() {
  const { read, write, values } = createSecretMasks(createGuesses());
  /** An attempted write that the API server answers with what it was sent. */
  const attempt = async (document: unknown, name = "login") => {
    const { document: sent, answer } = await write(document, { namespace: "", name });
    const response = structuredClone(sent) as Partial<Masked>;
    const { stringData = {}, ...patch } = response;
    const stored = { kind: "Secret", ...patch, metadata: { name, ...patch.metadata } };
    const shown = await answer({ ...stored, data: { ...stored.data, ...encode(stringData) } });
    return { sent: sent as Masked, answer: shown as Masked };
  };
  return {
    values,
    answer: read,
    unmask: async (document: unknown, name?: string) => (await attempt(document, name)).sent,
    written: async (document: unknown, name?: string) => (await attempt(document, name)).answer,
  };
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration";
const encode = (values: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, base64(value)] as const));

/** The text of a value as a run sees it. */
const shownIn = (answer: unknown, key: string) =>
  Buffer.from((answer as Masked).data?.[key] ?? "", "base64").toString();

interface Masked {
  readonly data?: Record<string, string>;
  readonly stringData?: Record<string, string>;
  readonly metadata: { readonly annotations?: Record<string, string>; readonly labels?: Record<string, string> };
  readonly items?: readonly Masked[];
}

function secret(data: Record<string, string>, metadata: object = {}) {
  return {
    kind: "Secret",
    apiVersion: "v1",
    metadata: { name: "login", ...metadata },
    data: encode(data),
    type: "Opaque",
  };
}

test("an answer holds no part of a value, and equal values have equal masks only within one run", async () => {
  const [one, other] = [createMasks(), createMasks()];
  const masked = (await one.answer(secret({ password: "hunter22", user: "ann-the-admin" }))) as Masked;
  const later = (await one.written(secret({ password: "hunter22" }))) as Masked;
  const elsewhere = (await other.answer(secret({ password: "hunter22" }))) as Masked;

  const shown = JSON.stringify(masked);
  for (const value of ["hunter22", "ann-the-admin"]) {
    expect(shown).not.toContain(value);
    expect(shown).not.toContain(base64(value));
  }
  expect(masked).toMatchObject({ kind: "Secret", type: "Opaque", metadata: { name: "login" } });
  expect(masked.data?.["user"]).not.toBe(masked.data?.["password"]);
  expect(later.data?.["password"]).toBe(masked.data?.["password"]);
  expect(elsewhere.data?.["password"]).not.toBe(masked.data?.["password"]);
  expect(Buffer.from(masked.data?.["password"] ?? "", "base64").toString()).toMatch(/^masked-[0-9a-f]{44}$/);
  expect(one.values().toSorted()).toEqual(["ann-the-admin", "hunter22"]);
});

test("a guess cannot be compared with a masked value, except for a few writes to the same key of the same Secret", async () => {
  const masks = createMasks();
  const passwordIn = (answer: unknown) => (answer as Masked).data?.["password"];
  const live = passwordIn(await masks.answer(secret({ password: "hunter22" })));
  const mask = Buffer.from(live ?? "", "base64").toString();

  const guess = secret({ password: "hunter22" }, { name: "of-the-branch" });
  const copy = secret({ password: mask }, { name: "of-the-branch" });
  const shown: unknown[] = [];
  for (const text of [guess, guess, copy, copy]) shown.push(passwordIn(await masks.written(text, "of-the-branch")));
  const elsewhere = ((await masks.answer(secret({ other: "hunter22" }))) as Masked).data?.["other"];
  expect(new Set([live, elsewhere, ...shown]).size).toBe(6);

  for (const password of ["hunter20", "hunter21", "hunter23"])
    expect(passwordIn(await masks.written(secret({ password })))).not.toBe(live);
  // The right one would be the fourth.
  const sent = await masks.unmask(secret({ password: "hunter22" }));
  expect(sent.data).not.toEqual(encode({ password: "hunter22" }));
  expect(passwordIn(await masks.written(secret({ password: "hunter22" })))).not.toBe(live);
});

describe("a fourth text that is written to the same place", () => {
  const guess = (at: number) => `hunter${at}`;
  const array = (text: string) => [...Buffer.from(text)];
  const forms: [string, (text: string) => object][] = [
    ["data", (text) => ({ data: encode({ password: text }) })],
    ["stringData", (text) => ({ stringData: { password: text } })],
    ["data as a list of bytes", (text) => ({ data: { password: array(text) } })],
    ["an annotation", (text) => ({ metadata: { annotations: { [lastApplied]: text } } })],
  ];
  test.each(forms)("is not sent, whether or not the Secret was read before: %s", async (_, form) => {
    for (const isRead of [true, false]) {
      const masks = createMasks();
      if (isRead) await masks.answer(secret({ password: guess(4) }));
      for (const at of [1, 2, 3]) expect(await masks.unmask(form(guess(at)))).toEqual(form(guess(at)));
      expect(await masks.unmask(form(guess(4)))).not.toEqual(form(guess(4)));
      expect(await masks.unmask(form(guess(2)))).toEqual(form(guess(2)));
      expect(await masks.unmask(form(guess(4)), "another")).toEqual(form(guess(4)));
    }
  });

  test("counts in all forms together, and does not depend on copied values", async () => {
    const masks = createMasks();
    const mask = shownIn(await masks.answer(secret({ password: "hunter22", other: "y" })), "password");
    await masks.unmask({ data: encode({ other: guess(1) }) });
    await masks.unmask({ stringData: { other: guess(2) } });
    await masks.unmask({ stringData: { other: mask } });
    expect((await masks.unmask({ stringData: { other: "hunter22" } })).stringData?.["other"]).not.toBe("hunter22");
  });

  test("is shown as it was written if it is an annotation that repeats nothing", async () => {
    const masks = createMasks();
    const written = async (note: string) => {
      const { metadata } = await masks.written(secret({}, { annotations: { note } }));
      return metadata.annotations?.["note"];
    };
    for (const at of [1, 2, 3, 4, 5]) expect(await written(guess(at))).toBe(guess(at));
  });
});

test("the response to an attempted write does not show which fields it changed", async () => {
  const masks = createMasks();
  const managedFields = [{ manager: "probe", operation: "Update" }];
  const answer = secret({ password: "hunter22" }, { managedFields, uid: "1" });
  expect(await masks.answer(answer)).toMatchObject({ metadata: { uid: "1", managedFields } });
  expect((await masks.written(answer)).metadata).toEqual({ name: "login", uid: "1" });
});

test("a document that is not JSON cannot be written", async () => {
  for (const document of [undefined, null, [], "data: {password: aHVudGVyMjI=}"])
    await expect(createMasks().unmask(document)).rejects.toThrow("as JSON only");
});

test("replacing masks by their values cannot make a request longer than the limit", async () => {
  const masks = createMasks();
  const { data } = (await masks.answer(secret({ release: "x".repeat(500_000) }))) as Masked;
  const mask = Buffer.from(data?.["release"] ?? "", "base64").toString();
  const once = { ...secret({}), stringData: { text: ` ${mask}\n` } };
  expect((await masks.unmask(once)).stringData?.["text"]).toHaveLength(500_002);
  for (const written of [
    { ...secret({}), stringData: { text: mask.repeat(1_000) } },
    secret({ text: mask.repeat(1_000) }),
    { ...secret({}), stringData: Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`key${at}`, mask])) },
  ]) {
    await expect(masks.unmask(written)).rejects.toThrow("too large for a preview");
  }
});

test("a mask is not masked again, but a forged one is", async () => {
  const masks = createMasks();
  const masked = (await masks.answer(secret({ password: "hunter22" }))) as Masked;
  expect(((await masks.answer(masked)) as Masked).data).toEqual(masked.data);
  const forged = `masked-${"0".repeat(44)}`;
  const answer = (await masks.answer(secret({ password: forged }))) as Masked;
  expect(answer.data?.["password"]).not.toBe(base64(forged));
});

test("a value that a project copies from one Secret into another is compared by its real value", async () => {
  const masks = createMasks();
  const mask = shownIn(await masks.answer(secret({ password: "hunter22" })), "password");
  const url = (password: string) => `postgres://shop:${password}@db`;
  const live = secret({ copy: "hunter22", url: url("hunter22"), text: url("hunter22") }, { name: "copies" });
  const before = (await masks.answer(live)) as Masked;
  const written = {
    ...secret({ copy: mask, url: url(mask), other: "new" }, { name: "copies", annotations: { note: mask } }),
    stringData: { text: url(mask) },
  };
  const sent = await masks.unmask(written, "copies");
  expect(sent.data).toEqual(encode({ copy: "hunter22", url: url("hunter22"), other: "new" }));
  expect(sent.stringData).toEqual({ text: url("hunter22") });
  // Masks are replaced only in values, because the answer masks all values.
  expect(sent.metadata.annotations).toEqual({ note: mask });
  expect((await masks.written(written, "copies")).data).toMatchObject(before.data ?? {});
});

test("a copy of a whole value with fields is compared by its real value, also with spaces around it", async () => {
  const masks = createMasks();
  const value = stringify({ db: { password: "hunter22", port: 5_432 } });
  const shown = shownIn(await masks.answer(secret({ vars: value })), "vars");
  expect(shown).toContain("password: masked-");
  for (const copied of [shown, shown.trimEnd(), `\n  ${shown}\n`]) {
    const sent = await masks.unmask(secret({ vars: copied }, { name: "new" }), "new");
    expect(
      Buffer.from(sent.data?.["vars"] ?? "", "base64")
        .toString()
        .trim(),
    ).toBe(value.trim());
  }
});

describe("a text that is partly the project's own and partly secret", () => {
  const name = "probe";
  const mix = async (text: (mask: string) => string) => {
    const masks = createMasks();
    const mask = shownIn(await masks.answer(secret({ password: "hunter22" })), "password");
    await masks.answer(secret({ known: "y", "\u0000": "z" }, { name }));
    const written = { ...secret({}, { name }), stringData: { known: text(mask), fresh: text(mask) } };
    return { sent: await masks.unmask(written, name), answer: await masks.written(written, name), mask };
  };

  test("is not sent to the API server, which could judge it, unless it equals the live value", async () => {
    const { sent, mask } = await mix((each) => `{"a": "\\u${each}"}`);
    expect(sent.stringData).toEqual({ known: `{"a": "\\u${mask}"}`, fresh: `{"a": "\\u${mask}"}` });
  });

  test.each([
    ["a key", (mask: string) => `{a${mask}: 1}`],
    ["the only key", (mask: string) => `${mask}: 1`],
    ["an alias among guesses", (mask: string) => `{k0: &hunter21 x, k1: &hunter22 y, z: *${mask}}`],
    ["an anchor", (mask: string) => `{a: &${mask} x, b: *hunter22}`],
    ["a tag", (mask: string) => `{a: !<${mask}> x}`],
    ["a key twice", (mask: string) => `{hunter22: 1, ${mask}: 2}`],
  ])("is shown as one mask with nothing of the value in it: %s", async (_, text) => {
    const { answer } = await mix(text);
    for (const key of ["known", "fresh"]) expect(shownIn(answer, key)).toMatch(/^masked-[0-9a-f]{44}$/);
  });
});

test("a copy of a value is shown as one mask, though the value itself has fields", async () => {
  const masks = createMasks();
  const value = "hunter22: {port: 5432}\n";
  const shown = shownIn(await masks.answer(secret({ vars: value })), "vars");
  const mask = /masked-[0-9a-f]{44}/.exec(shown)?.[0] ?? "";
  expect(shownIn(await masks.written(secret({ copy: mask }, { name: "probe" }), "probe"), "copy")).toMatch(
    /^masked-[0-9a-f]{44}$/,
  );
});

test("an annotation that a project writes is shown whether or not it repeats a live value", async () => {
  const masks = createMasks();
  const live = { plain: "hello", repeats: "password is hunter22" };
  const before = (await masks.answer(secret({ password: "hunter22" }, { annotations: live }))) as Masked;
  const { plain, repeats } = before.metadata.annotations ?? {};
  expect([plain, repeats]).toEqual(["hello", expect.stringMatching(/^masked-/)]);

  const guesses = { one: "hunter21", two: "hunter22", three: "hunter20 hunter21 hunter22 hunter23" };
  const written = secret({ password: "hunter22" }, { annotations: { ...live, ...guesses } });
  expect((await masks.written(written)).metadata.annotations).toEqual({ ...before.metadata.annotations, ...guesses });
});

test("variables in a Secret keep their names, and content that cannot be parsed is masked as a whole", async () => {
  const masks = createMasks();
  const shown = async (value: string, key = "vars") => {
    const { data } = (await masks.answer(secret({ [key]: value }))) as Masked;
    return Buffer.from(data?.[key] ?? "", "base64").toString();
  };
  const vars = {
    db: { host: "db.internal", password: "hunter22", port: 5_432, tls: true, more: ["s3cret-one", null] },
    empty: "",
  };
  const text = await shown(stringify(vars));
  for (const value of ["db.internal", "hunter22", "5432", "true", "s3cret-one"]) expect(text).not.toContain(value);
  const mask = expect.stringMatching(/^masked-/);
  const masked = { db: { host: mask, password: mask, port: 0, tls: false, more: [mask, null] }, empty: "" };
  expect(parse(text)).toEqual(masked);
  expect(parse(await shown(JSON.stringify(vars)))).toEqual(masked);
  expect(await shown(stringify(vars))).toBe(text);
  expect(await shown(stringify({ ...vars, db: { ...vars.db, port: 5_433 } }))).not.toBe(text);
  expect(masks.values()).toContain("hunter22");

  for (const [at, other] of [
    "a1b2c3d4e5f6: admin\n",
    "hunter22 is my password: yes\n",
    "user:hunter22",
    "- hunter22\n",
    `${"{a: ".repeat(30)}b${"}".repeat(30)}`,
    "a: &a [x, x]\nb: &b [*a, *a]\nc: *b\n<<: *z\n",
    "a: {b: [",
    Array.from({ length: 2_000 }, (_, at) => `a${at % 999}${"b".repeat(at / 999)}: x\n`).join(""),
  ].entries()) {
    expect(await shown(other, `other${at}`)).toMatch(/^masked-[0-9a-f]{44}$/);
  }
});

test("masks of another run are not replaced", async () => {
  const { data } = (await createMasks().answer(secret({ password: "hunter22" }))) as Masked;
  const written = { ...secret({}), data };
  expect(await createMasks().unmask(written)).toEqual(written);
});

test("lists and annotations written by tools contain no value", async () => {
  const masks = createMasks();
  const former = JSON.stringify(secret({ password: "the-one-before" }));
  const annotations = {
    "kubectl.kubernetes.io/last-applied-configuration": former,
    "tool/copy": "password is hunter22!",
    "tool/copy64": base64("hunter22"),
    "tool/packed": gzipSync(former.repeat(10) + randomBytes(600).toString("hex")).toString("base64"),
    "meta.helm.sh/release-name": "shop",
  };
  const whole = secret({ password: "hunter22" }, { annotations, labels: { app: "shop" } });
  const list = { kind: "SecretList", apiVersion: "v1", metadata: { resourceVersion: "1" }, items: [whole] };
  const shown = JSON.stringify([await masks.answer(list), await masks.answer(whole)]);
  for (const value of ["hunter22", base64("hunter22"), "the-one-before", base64("the-one-before")]) {
    expect(shown).not.toContain(value);
  }
  expect(shown).not.toContain(annotations["tool/packed"]);
  expect(shown).toContain('"meta.helm.sh/release-name":"shop"');
  expect(shown).toContain('"app":"shop"');
});

test("values of all types become masks", async () => {
  const masks = createMasks();
  const binary = Buffer.concat([Buffer.from([0xff, 0xfe, 0x00]), randomBytes(2_000)]);
  const odd = {
    kind: "Secret",
    apiVersion: "v1",
    metadata: {},
    data: { binary: base64(binary), empty: "", none: null, number: 7 },
  };
  const { data = {} } = (await masks.answer(odd)) as Masked;
  for (const value of Object.values(data)) expect(Buffer.from(value, "base64").toString()).toMatch(/^masked-/);
  expect(masks.values()).toContain(base64(binary));
});

test("an answer of another kind is refused", async () => {
  const masks = createMasks();
  const table = { kind: "Table", apiVersion: "meta.k8s.io/v1", metadata: {}, rows: [{ cells: ["hunter22"] }] };
  for (const answer of [
    table,
    { kind: "ConfigMap", metadata: {}, data: {} },
    { data: {} },
    [],
    "hunter22",
    undefined,
    null,
  ]) {
    await expect(masks.answer(answer)).rejects.toThrow("is not a Secret");
  }
});

test("API server messages that may quote a Secret are removed, and those about permissions are kept", async () => {
  const masks = createMasks();
  const causes = [
    { reason: "FieldValueInvalid", field: "data.password", message: 'Invalid value: "hunter22": too short' },
  ];
  const status = (code: number, message: string, more: object = {}) => ({
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    code,
    message,
    ...more,
  });
  const shown = async (answer: unknown) => JSON.stringify(await masks.answer(answer));
  const invalid = status(422, 'Secret "login" is invalid: data.password: Invalid value: "hunter22"', {
    reason: "Invalid",
    details: { name: "login", causes },
  });
  expect(await shown(invalid)).not.toContain("hunter22");
  expect(await shown(invalid)).toContain("data.password");
  expect(await masks.answer(invalid)).toMatchObject({ code: 422, reason: "Invalid" });
  expect(await shown(status(403, 'admission webhook "check" denied the request: hunter22 is weak'))).not.toContain(
    "hunter22",
  );
  expect(await shown(status(500, "hunter22"))).not.toContain("hunter22");
  const forbidden =
    'secrets "login" is forbidden: User "system:serviceaccount:shop:preview" cannot get resource "secrets"';
  expect(await shown(status(403, forbidden))).toContain("cannot get resource");
  const conflict = {
    message: 'conflict with "kubectl-edit" using v1',
    reason: "FieldManagerConflict",
    field: ".data.password",
  };
  expect(await shown(status(409, "Apply failed with 1 conflict", { details: { causes: [conflict] } }))).toContain(
    "kubectl-edit",
  );
});

test("the Secrets that one run can read are limited in size and number", async () => {
  const masks = createMasks();
  const read = async () => {
    for (let i = 0; i < 40; i++) await masks.answer(secret({ [`key${i}`]: `${i}${"x".repeat(1_000_000)}` }));
  };
  await expect(read()).rejects.toThrow("MiB of Secrets");

  const many = (value: string) =>
    secret(Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`key${at}`, `${value}${at}`])));
  const next = createMasks();
  await next.written(many("a"));
  await expect(next.written(many("b"))).rejects.toThrow("50000 values");
});

test("while a Secret with 20,000 values is masked, the server handles other work", async () => {
  const masks = createMasks();
  const large = secret(Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`key${at}`, `value${at}`])));
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  onTestFinished(() => clearInterval(timer));
  const turnsDuring = async (work: Promise<unknown>) => {
    const before = turns;
    await work;
    return turns - before;
  };

  expect(await turnsDuring(masks.answer(large))).toBeGreaterThan(5);
  expect(await turnsDuring(masks.unmask(large))).toBeGreaterThan(5);
});
