// Tool calls as a grammar: an answer that is one or more calls, each with the name of a tool and arguments that satisfy the
// schema of its parameters. The host lets a sequence run under it when a tool is to be called, and reads the calls back.
import { RuleBook, literal, oneOf } from './rule-book.ts';
import { compileSchema } from './schema.ts';

/** A tool as every dialect describes it. */
export interface Tool {
  readonly name: string;
  /** JSON schema of the arguments. Default: an object without properties. */
  readonly parameters?: unknown;
}

/** A call that the model has made. */
export interface ToolCall {
  readonly name: string;
  /** JSON text that satisfies the schema of the tool. */
  readonly arguments: string;
}

/** Parameters of a tool that takes none. */
const NO_PARAMETERS = { type: 'object', properties: {}, additionalProperties: false };

/**
 * The grammar of an answer that calls tools: from 1 to `maxCalls` calls (default 1), one JSON object a line. For a choice
 * that names a tool, pass that tool alone. Throws a SchemaError for parameters that cannot be a grammar.
 */
export function toolCallGrammar(tools: readonly Tool[], maxCalls: number = 1): string {
  const rules = new RuleBook();
  const calls = tools.map(({ name, parameters }) => {
    const start = literal(`{"name":${JSON.stringify(name)},"arguments":`);
    return rules.add(`${start} ${compileSchema(parameters ?? NO_PARAMETERS, rules)} "}"`);
  });
  const call = rules.add(oneOf(calls));
  return rules.text(maxCalls > 1 ? `${call} ("\\n" ${call}){0,${maxCalls - 1}}` : call);
}

/**
 * The calls in a text of such a grammar. A last line that was cut off is kept when its name is whole, with the arguments as
 * far as they go: clients see the same when a limit ends a real answer.
 */
export function readToolCalls(text: string): ToolCall[] {
  return text.split('\n').flatMap((line) => {
    const match = /^\{"name":("(?:[^"\\]|\\.)*"),"arguments":/.exec(line);
    if (match === null) return [];
    const rest = line.slice(match[0].length);
    const name = JSON.parse(match[1]!) as string;
    return [{ name, arguments: isWhole(line) ? rest.slice(0, -1) : rest }];
  });
}

function isWhole(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}
