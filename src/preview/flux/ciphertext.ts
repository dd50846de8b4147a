/** Objects with values that SOPS encrypted: previews do not decrypt them, and show placeholders instead. Pure. */
import { hash } from "node:crypto";
import { fieldsOf, type JsonObject } from "../../kit/json.ts";
import { decodedData, isSecretObject, mapTexts, someText } from "./manifests.ts";

const isCiphertext = (text: string) => text.startsWith("ENC[");
/** What SOPS writes at the end of a file, in each of its formats. */
const isEncryptedFile = (text: string) =>
  (text.includes("ENC[") || text.includes("[sops]")) &&
  /"mac":\s*"ENC\[|^[ \t]*mac: ENC\[|sops_mac=ENC\[|^\[sops\]/m.test(text);

const decoded = (text: string) => Buffer.from(text, "base64").toString("utf8");

export function isEncrypted(object: JsonObject): boolean {
  if (object["sops"] !== undefined || someText(object, isCiphertext)) return true;
  return isGenerated(object) || someText(object, isEncryptedFile);
}

/** Whether it is a Secret with the content of an encrypted file, as generators of kustomize make them. */
export function isGenerated(object: JsonObject): boolean {
  return decodedData(object).some(isHidden);
}

function isHidden(text: string): boolean {
  return isCiphertext(text) || isEncryptedFile(text);
}

/** The object with a placeholder for each encrypted value: equal for equal ciphertexts. */
export function withPlaceholders(object: JsonObject): JsonObject {
  const { sops: _, ...rest } = object;
  const shown = mapTexts(rest, (text) => (isHidden(text) ? placeholderOf(text) : text)) as JsonObject;
  if (!isSecretObject(object)) return shown;
  const data = Object.entries(fieldsOf(shown["data"])).map(([key, value]) => {
    const plain = typeof value === "string" ? decoded(value) : "";
    return [key, isHidden(plain) ? Buffer.from(placeholderOf(plain)).toString("base64") : value];
  });
  return { ...shown, ...(data.length > 0 && { data: Object.fromEntries(data) as JsonObject }) };
}

function placeholderOf(ciphertext: string): string {
  return `encrypted${hash("sha256", ciphertext).slice(0, 12)}`;
}
