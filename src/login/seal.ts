/**
 * Encrypted data in the browser that it can neither read nor change: cookies with claims, which every replica can open.
 */
import { hkdfSync } from "node:crypto";
import { EncryptJWT, jwtDecrypt } from "jose";

export interface Sealed {
  readonly content: unknown;
  /** Epoch milliseconds. */
  readonly until: number;
}

export interface Seal {
  /** `purpose`: content that is sealed for one purpose is not opened for another. */
  close(purpose: string, content: unknown, until: number): Promise<string>;
  /** Resolves to `undefined` if it has expired, was not created by this server, or was sealed with another secret. */
  open(purpose: string, text: string): Promise<Sealed | undefined>;
}

/** Longer than any cookie that a browser stores. */
const longest = 8_192;

export function createSeal(secret: string, now: () => number): Seal {
  const key = new Uint8Array(hkdfSync("sha256", secret, "", "towline page cookies", 32));
  return {
    close: (purpose, content, until) =>
      new EncryptJWT({ content })
        .setProtectedHeader({ alg: "dir", enc: "A256GCM" })
        .setAudience(purpose)
        .setExpirationTime(Math.floor(until / 1_000))
        .encrypt(key),
    async open(purpose, text) {
      if (text === "" || text.length > longest) return undefined;
      try {
        const { payload } = await jwtDecrypt(text, key, {
          audience: purpose,
          currentDate: new Date(now()),
          keyManagementAlgorithms: ["dir"],
          contentEncryptionAlgorithms: ["A256GCM"],
          requiredClaims: ["exp"],
        });
        return { content: payload["content"], until: (payload.exp ?? 0) * 1_000 };
      } catch {
        return undefined; // whatever is wrong with it, it is not valid
      }
    },
  };
}
