/**
 * Encrypts stored data with keys that can be rotated: the first secret encrypts, any of them decrypts. AES-256-GCM with a
 * key for each box, derived from the secret and a random salt by HKDF-SHA256: so a secret can encrypt any number of boxes,
 * although nonces are random. A derived key is only as strong as its secret, which therefore has to be random.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

export interface SealedBox {
  /** `identity`: what the content belongs to. It is not stored: the box opens only with the same identity. */
  seal(content: string, identity: string): Buffer;
  /** `unknown-key`: sealed with another secret. `altered`: changed since, of another identity, or not a box. */
  open(box: Buffer, identity: string): { readonly content: string } | "unknown-key" | "altered";
}

const algorithm = "aes-256-gcm";
const version = 1;
/** Lengths in bytes, in the order of the parts; the rest is the encrypted content. */
const [versionLength, idLength, saltLength, nonceLength, tagLength] = [1, 8, 16, 12, 16];
const saltAt = versionLength + idLength;
const nonceAt = saltAt + saltLength;
const tagAt = nonceAt + nonceLength;
const contentAt = tagAt + tagLength;

/** `purpose`: boxes of another purpose cannot be opened, even with the same secret. There has to be a secret. */
export function createSealedBox(secrets: readonly string[], purpose: string): SealedBox {
  const derive = (secret: string, salt: Uint8Array, use: string, length: number) =>
    Buffer.from(hkdfSync("sha256", secret, salt, `${purpose} ${use}`, length));
  const keys = secrets.map((secret) => ({ secret, id: derive(secret, new Uint8Array(), "key id", idLength) }));
  const [newest] = keys;
  if (newest === undefined) throw new Error(`no key for ${purpose}`);
  const keyOf = (secret: string, salt: Uint8Array) => derive(secret, salt, "content", 32);
  const additional = (header: Uint8Array, identity: string) => Buffer.concat([header, Buffer.from(identity)]);

  return {
    seal(content, identity) {
      const [salt, nonce] = [randomBytes(saltLength), randomBytes(nonceLength)];
      const header = Buffer.concat([Buffer.of(version), newest.id, salt]);
      const cipher = createCipheriv(algorithm, keyOf(newest.secret, salt), nonce, { authTagLength: tagLength });
      cipher.setAAD(additional(header, identity));
      const encrypted = Buffer.concat([cipher.update(content, "utf8"), cipher.final()]);
      return Buffer.concat([header, nonce, cipher.getAuthTag(), encrypted]);
    },
    open(box, identity) {
      if (box.length < contentAt || box[0] !== version) return "altered";
      const key = keys.find(({ id }) => id.equals(box.subarray(versionLength, saltAt)));
      if (key === undefined) return "unknown-key";
      const [salt, nonce] = [box.subarray(saltAt, nonceAt), box.subarray(nonceAt, tagAt)];
      const decipher = createDecipheriv(algorithm, keyOf(key.secret, salt), nonce, { authTagLength: tagLength });
      decipher.setAAD(additional(box.subarray(0, nonceAt), identity)).setAuthTag(box.subarray(tagAt, contentAt));
      try {
        const content = Buffer.concat([decipher.update(box.subarray(contentAt)), decipher.final()]);
        return { content: content.toString("utf8") };
      } catch {
        return "altered"; // the tag does not match, which is the only possible error
      }
    },
  };
}
