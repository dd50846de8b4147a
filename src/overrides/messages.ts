/**
 * The messages of kluctl's source-override service, `sourceoverride.Proxy`, in protobuf's wire format. They are few,
 * and their fields are only strings, bytes and other messages, so no protobuf library is used:
 *
 * service Proxy {
 *   rpc ProxyStream(stream ProxyResponse) returns (stream ProxyRequest);
 *   rpc ResolveOverride(ProxyRequest) returns (ResolveOverrideResponse);
 * }
 */

export interface AuthMessage {
  /** The client's public key: SubjectPublicKeyInfo, DER. */
  readonly pubKey?: Buffer | undefined;
  readonly challenge?: Buffer | undefined;
  /** Proof of possession: signature over the key's hash and the challenge. */
  readonly pop?: Buffer | undefined;
  /** Empty: the client was accepted. */
  readonly authError?: string | undefined;
  /** SHA-256 of the public key, hexadecimal. */
  readonly pubKeyHash?: string | undefined;
  readonly controllerSecret?: Buffer | undefined;
}

export interface ResolveRequest {
  readonly repoKey?: string | undefined;
}

/** If neither field is set, the client has no override for that repository. */
export interface ResolveResponse {
  readonly error?: string | undefined;
  /** A tar.gz. */
  readonly artifact?: Buffer | undefined;
}

/** From the server to the client that has the sources, and from a controller to the server. */
export interface ProxyRequest {
  readonly auth?: AuthMessage | undefined;
  readonly request?: ResolveRequest | undefined;
}

/** From the client that has the sources to the server. */
export interface ProxyResponse {
  readonly auth?: AuthMessage | undefined;
  readonly response?: ResolveResponse | undefined;
}

interface Codec<T> {
  encode(message: T): Buffer;
  /** Throws if the bytes are not such a message. Unknown fields are ignored. */
  decode(bytes: Buffer): T;
}

/** Fields are numbered from 1 in the order of their names here. */
function message<T extends object>(fields: { readonly [Name in keyof T]-?: Codec<NonNullable<T[Name]>> }): Codec<T> {
  const list = Object.entries(fields) as [keyof T, Codec<unknown>][];
  return {
    encode(value) {
      const parts = list.flatMap(([name, codec], index) => {
        if (value[name] === undefined) return [];
        const content = codec.encode(value[name]);
        return [varint(((index + 1) << 3) | lengthDelimited), varint(content.length), content];
      });
      return Buffer.concat(parts);
    },
    decode(bytes) {
      const found: Partial<T> = {};
      for (const { number, content } of readFields(bytes)) {
        const field = list[number - 1];
        if (field !== undefined) found[field[0]] = field[1].decode(content) as T[keyof T];
      }
      return found as T;
    },
  };
}

const text: Codec<string> = {
  encode: (value) => Buffer.from(value, "utf8"),
  decode: (bytes) => bytes.toString("utf8"),
};
const raw: Codec<Buffer> = { encode: (value) => value, decode: (bytes) => bytes };

const AuthMessage = message<AuthMessage>({
  pubKey: raw,
  challenge: raw,
  pop: raw,
  authError: text,
  pubKeyHash: text,
  controllerSecret: raw,
});
const ResolveRequest = message<ResolveRequest>({ repoKey: text });

export const ResolveResponse = message<ResolveResponse>({ error: text, artifact: raw });
export const ProxyRequest = message<ProxyRequest>({ auth: AuthMessage, request: ResolveRequest });
export const ProxyResponse = message<ProxyResponse>({ auth: AuthMessage, response: ResolveResponse });

const lengthDelimited = 2;
/** Length of values of these wire types; the other types are no longer used. */
const fixedLengths: Readonly<Record<number, number>> = { 1: 8, 5: 4 };

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 0x7f; left = Math.floor(left / 128)) bytes.push((left % 128) | 0x80);
  return Buffer.from([...bytes, left]);
}

/** Yields the string and bytes fields; others, from later versions, are skipped. */
function* readFields(bytes: Buffer): Generator<{ number: number; content: Buffer }> {
  let at = 0;
  const next = (): number => {
    let value = 0;
    for (let shift = 1; shift <= 2 ** 63; shift *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) break;
      value += (byte & 0x7f) * shift;
      if (byte < 0x80) return value;
    }
    throw new Error("it is not a message of the source-override service");
  };
  while (at < bytes.length) {
    const tag = next();
    const type = tag % 8;
    if (type === 0) next();
    else {
      const length = type === lengthDelimited ? next() : fixedLengths[type];
      if (length === undefined || length > bytes.length - at) {
        throw new Error("it is not a message of the source-override service");
      }
      if (type === lengthDelimited) yield { number: Math.floor(tag / 8), content: bytes.subarray(at, at + length) };
      at += length;
    }
  }
}
