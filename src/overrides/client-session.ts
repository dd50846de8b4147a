/**
 * The session of one command line that offers sources: authenticates it and sends it requests. Independent of the
 * transport.
 */
import { createHash, createPublicKey, type KeyObject, randomBytes, verify } from "node:crypto";
import { beforeAbort } from "../kit/deadline.ts";
import type { ProxyRequest, ProxyResponse, ResolveResponse } from "./messages.ts";

/** The client violated the protocol or disconnected. */
export class ClientError extends Error {
  override name = "ClientError";
}

export interface ClientSession {
  /** Handles a message of the client. Throws ClientError: the connection must then be closed. */
  receive(message: ProxyResponse): void;
  /** The connection was closed: rejects all pending requests. */
  closed(): void;
}

/** An authenticated client. */
export interface OverrideClient {
  /** SHA-256 of its public key in hexadecimal: the client's name in an override's URL. */
  readonly id: string;
  /** A client answers one request after the other. Throws ClientError, or the signal's reason. */
  ask(repoKey: string, signal: AbortSignal): Promise<ResolveResponse>;
}

export interface ClientSessionDeps {
  readonly send: (message: ProxyRequest) => void;
  /** Throws ClientError if the client cannot be accepted. */
  readonly accept: (client: OverrideClient) => void;
}

const challengeBytes = 32;
/** Command lines use P-256. Keys with custom curve parameters are not accepted for any calculation. */
const curves = ["prime256v1", "secp384r1", "secp521r1"];

/**
 * The client sends its public key, signs our challenge, and is accepted. After that it only sends answers to requests.
 */
export function createClientSession({ send, accept }: ClientSessionDeps): ClientSession {
  const questions = createQuestions(send);
  const challenge = randomBytes(challengeBytes);
  let known: { key: KeyObject; hash: Buffer } | undefined;
  let accepted = false;

  return {
    receive({ auth, response }) {
      if (accepted) {
        if (response === undefined) throw new ClientError("expected an answer");
        questions.answer(response);
      } else if (known === undefined) {
        known = readPublicKey(auth?.pubKey);
        send({ auth: { challenge } });
      } else {
        if (!isProof(auth?.pop, known, challenge)) throw new ClientError("proof of possession failed");
        accepted = true;
        const id = known.hash.toString("hex");
        accept({ id, ask: (repoKey, signal) => questions.ask(id, repoKey, signal) });
        send({ auth: { authError: "" } });
      }
    },
    closed: () => questions.close(),
  };
}

function readPublicKey(pubKey: Buffer | undefined): { key: KeyObject; hash: Buffer } {
  if (pubKey === undefined || pubKey.length === 0) throw new ClientError("expected auth");
  let key: KeyObject;
  try {
    key = createPublicKey({ key: pubKey, format: "der", type: "spki" });
  } catch {
    throw new ClientError("the public key cannot be read");
  }
  const { namedCurve = "" } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType !== "ec" || !curves.includes(namedCurve)) throw new ClientError("not an ECDSA public key");
  return { key, hash: createHash("sha256").update(pubKey).digest() };
}

function isProof(pop: Buffer | undefined, { key, hash }: { key: KeyObject; hash: Buffer }, challenge: Buffer): boolean {
  return pop !== undefined && verify("sha256", Buffer.concat([hash, challenge]), key, pop);
}

interface Question {
  readonly resolve: (response: ResolveResponse) => void;
  readonly reject: (error: ClientError) => void;
}

/**
 * Answers do not identify their request. So the next request is sent only after the previous one was answered, even if
 * its caller has given up.
 */
function createQuestions(send: (message: ProxyRequest) => void) {
  const gone = () => new ClientError("the client disconnected");
  let open: Question | undefined;
  let over = false;
  let turn: Promise<unknown> = Promise.resolve();

  function put(id: string, repoKey: string): Promise<ResolveResponse> {
    if (over) return Promise.reject(gone());
    return new Promise((resolve, reject) => {
      open = { resolve, reject };
      send({ auth: { pubKeyHash: id }, request: { repoKey } });
    });
  }

  return {
    async ask(id: string, repoKey: string, signal: AbortSignal): Promise<ResolveResponse> {
      signal.throwIfAborted();
      const answer = turn.then(() => {
        signal.throwIfAborted();
        return put(id, repoKey);
      });
      turn = answer.catch(() => undefined);
      return beforeAbort(answer, signal);
    },
    answer(response: ResolveResponse): void {
      if (open === undefined) throw new ClientError("not requested");
      open.resolve(response);
      open = undefined;
    },
    close(): void {
      over = true;
      open?.reject(gone());
      open = undefined;
    },
  };
}
