// Refuses a Node.js that `engines` of package.json excludes, when it is evaluated. Every entry of the package imports it first, so that
// users read a sentence and not what a dependency throws. It imports nothing, and its syntax is old.

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);

// 22.19 is the first that undici supports. In 23 `node:sqlite` does not tell whether a transaction is open.
if (major < 22 || (major === 22 && minor < 19) || major === 23)
  throw new Error(`headrace needs Node.js 22.19 or newer, except 23; this is ${process.versions.node}.`);

export {};
