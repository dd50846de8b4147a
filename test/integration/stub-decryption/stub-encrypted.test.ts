/** Real directories, as a branch could contain them. */
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { findEncrypted, stubEncrypted } from "../../../src/stub-decryption/stub-encrypted.ts";
import { ageMasterKey, blueKey, encryptedYaml } from "../../support/sops.ts";

const { signal } = new AbortController();
const key = { dataKey: blueKey.dataKey, masterKeys: ageMasterKey(blueKey) };
const secret = encryptedYaml({ password: "canary" }, key);

function useTree(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), "towline-stubs-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
}

test("encrypted files are found in all directories, and only those are replaced", async () => {
  const root = useTree({
    "a.yaml": secret,
    "deep/er/b.yml": secret,
    "open.yaml": "a: 1 # \xff sops ENC[AES256_GCM,\n",
    "c.txt": secret,
    ".git/d.yaml": secret,
  });
  const found = await findEncrypted(root, signal);
  expect([...found.keys()].sort()).toEqual(["a.yaml", "deep/er/b.yml"]);
  expect(readFileSync(join(root, "a.yaml"), "utf8")).toBe(secret);

  expect(await stubEncrypted(root, signal)).toEqual(found);
  for (const path of ["a.yaml", "deep/er/b.yml"]) {
    expect(readFileSync(join(root, path), "utf8")).toMatch(/^password: encrypted\w{11}\n$/);
  }
  for (const path of ["c.txt", ".git/d.yaml"]) expect(readFileSync(join(root, path), "utf8")).toBe(secret);
  expect(readdirSync(root).sort()).toEqual([".git", "a.yaml", "c.txt", "deep", "open.yaml"]);
  expect(await findEncrypted(root, signal)).toEqual(new Map());
});

test("symbolic links are not followed", async () => {
  const outside = useTree({ "outside.yaml": secret, "dir/inside.yaml": secret });
  const root = useTree({ "a.yaml": secret });
  symlinkSync(join(outside, "outside.yaml"), join(root, "link.yaml"));
  symlinkSync(join(outside, "dir"), join(root, "dir"));
  symlinkSync("/dev/zero", join(root, "zero.yaml"));
  symlinkSync(".", join(root, "round"));

  expect([...(await stubEncrypted(root, signal)).keys()]).toEqual(["a.yaml"]);
  expect(readFileSync(join(outside, "outside.yaml"), "utf8")).toBe(secret);
  expect(readFileSync(join(outside, "dir/inside.yaml"), "utf8")).toBe(secret);
});

test("the search skips files that are too large, and fails if there are too many or they are too deep", async () => {
  const root = useTree({ "a.yaml": secret, "b.yaml": secret, "d/e/f/c.yaml": secret });
  await expect(findEncrypted(root, signal, { files: 2 })).rejects.toThrow(
    "the repository cannot be searched for encrypted files: it has more than 2 files",
  );
  await expect(findEncrypted(root, signal, { depth: 2 })).rejects.toThrow("directories more than 2 deep");
  await expect(findEncrypted(root, signal, { bytes: secret.length + 1 })).rejects.toThrow("bytes of YAML");
  expect(await findEncrypted(root, signal, { fileBytes: 10 })).toEqual(new Map());
});

test("an aborted call ends early", async () => {
  const files = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`${i}.yaml`, secret]));
  await expect(stubEncrypted(useTree(files), AbortSignal.abort(new Error("superseded")))).rejects.toThrow("superseded");
});
