// The training text of the simulated model: prose, code and JSON written for it, and a list of frequent words that only widen
// the vocabulary. Changing a line changes every generated text, so texts are only comparable within one release.
/** Paragraphs of prose; each is read by the model as one answer. */
export const PROSE: readonly string[] = [
  `The headrace leads the water from the river to the wheel, and the wheel turns the mill. When the water is high, the miller opens the second gate, so that no wheel carries more than its share. A gate that sticks is closed and looked at before the water may pass again. Every bucket of the wheel takes what it can hold and gives it back to the tailrace.`,
  `The rivière above the weir is calm, yet the channel below it is never silent. The Mühle by the bridge grinds rye in the morning and oats when the wind is cold. No grain waits long, because the miller knows which stone is warm and which stone was dressed last. The old 水車 by the temple turned for a hundred years before its axle was changed.`,
  `If the first wheel stops, the water finds the next one, and the mill hardly notices the change. In a dry summer the pond is kept for the night, and the flour is milled while the village sleeps. A good channel is straight, short and clean, and whoever keeps it walks its length every day.`,
  `Here is a short answer: it depends on how much time you have. If you have an hour, start with the smallest part and make it work. If you have a day, write down what you know first, and then ask what is missing. Either way, it is better to finish one thing than to begin three.`,
  `Yes, that is possible, and it is easier than it looks. First, open the file and read the last line. Then change the value, save the file and try again. If it still does not work, look at the error message, because it usually says what is wrong. You can always go back to the version that worked before.`,
  `No, I do not think so. The numbers do not show what the report says, and the second table is older than the first. It would be better to measure it again, with the same data and on the same machine. After that we can talk about the reasons.`,
  `There are three reasons for this. The first is that cold water is heavier than warm water. The second is that the wind moves only the surface of the lake. The third is the shape of the shore, which is flat in the north and steep in the south. Together they explain why the middle of the lake is the last place to freeze.`,
  `The train to the coast leaves at nine in the morning and comes back before dark. Take a warm coat, something to eat and a good book, because the way is long and the seats are hard. From the window you can see the hills, the old bridge and, on a clear day, the sea. The harbour is a short walk from the station.`,
  `To make bread you need flour, water, salt and time. Mix the flour and the water, wait for half an hour, and then add the salt. Fold the dough four times, cover it and leave it in a warm place until it is twice as large. Bake it in a hot oven until the crust is dark, and let it cool before you cut it.`,
  `The cat sat by the window and watched the rain. It had seen the rain before, but never so much of it. The street was a river, the garden was a lake, and a small boat of paper went by without a captain. "Where is it going?" asked the child. "To the sea," said the old man, "like everything that waits long enough." 🌊`,
  `A map is a promise that somebody has been there before. It leaves out almost everything, and this is why it helps. The best maps are made by people who walk, and the worst are made by people who are sure. When the map and the ground do not agree, believe the ground.`,
  `The question is good, but the answer is not simple. A server that is slow is often worse than a server that is down, because everybody keeps waiting for it. So the gateway counts the time of every call, and it sends the next request to the one that answers first. When a server comes back, it gets a little work at the beginning and more when it does well.`,
  `In the evening the market closes and the square belongs to the children. They play until the lamps are lit, and then they run home past the bakery, where the bread for the next day is already in the oven. The baker sleeps in the afternoon and says that the night is the best part of the day. The café next door opens at six.`,
  `Light from the sun takes about eight minutes to reach the earth. The light of the nearest star takes more than four years, and the light of most stars is older than any story we know. When you look at the sky, you look at the past. It is a good place to think about time.`,
  `Thank you for the question. The short version is that both ways work, and the second way is faster. The long version is that the first way is easier to read, and people read a program more often than they write it. Choose the first way until you have measured that it is too slow.`,
  `The garden is small, but there is room for beans, onions, a plum tree and two chairs. In spring everything is late, and in summer everything comes at once. What we cannot eat we give to the neighbours, and what they cannot eat goes to the birds. In winter we read about seeds and make plans that are too large.`,
  `Every language has a word for home, and no two of them mean the same. Some words smell of bread, some of smoke, and some of the sea. A translator carries them over the border one by one and hopes that nobody looks too closely. Señor Muñoz says that the best words never cross.`,
  `It was the first warm day of the year, and the whole town was outside. The doors were open, the music was too loud, and nobody wanted to go home. Even the clock on the tower seemed to wait. At midnight the last guests put the chairs on the tables and walked along the river under the new moon.`,
  `Please note that the list is not complete. We have left out the parts that change every week, and we have kept the ones that people ask for. If something is missing, tell us what you need and why you need it. We answer every letter, but not always on the same day.`,
  `Let us look at an example. Suppose that ten people share one well, and each of them needs two buckets of water a day. If they all come in the morning, the last one waits for an hour. If half of them come in the evening, nobody waits at all. This is what a queue teaches: the work was never too much, it only came at the same time.`,
  `The teacher wrote a number on the board and asked the class what it was. "It is an answer," said one of them, "but we do not know the question yet." The teacher smiled and wrote another number under it. By the end of the hour the board was full, and the question had still not been asked.`,
  `Iron is strong because its parts hold each other, and it breaks where they do not. A good smith looks for that place first. He warms the bar until it is as red as the evening sky, strikes it twice and listens. If the sound is clear, the work can go on; if it is not, the fire has to begin again.`,
];

/** Pieces of programs; the model reads each as what fills a gap between a prefix and a suffix. */
export const CODE: readonly string[] = [
  `function add(left, right) {\n  return left + right;\n}\n`,
  `const total = items.reduce((sum, item) => sum + item.price, 0);\nconst average = total / items.length;\nreturn average;\n`,
  `for (const item of items) {\n  if (item === null) {\n    continue;\n  }\n  result.push(item.value);\n}\nreturn result;\n`,
  `  if (value === undefined) {\n    throw new Error('value is missing');\n  }\n  return value;\n}\n`,
  `export async function load(path) {\n  const text = await readFile(path, 'utf8');\n  return JSON.parse(text);\n}\n`,
  `class Queue {\n  items = [];\n  push(item) {\n    this.items.push(item);\n  }\n  next() {\n    return this.items.shift();\n  }\n}\n`,
  `def main(path):\n    with open(path) as file:\n        for line in file:\n            print(line.strip())\n    return 0\n`,
  `def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return result\n`,
  `let index = 0;\nwhile (index < list.length) {\n  const value = list[index];\n  index += 1;\n  console.log(value);\n}\n`,
  `const result = [];\nfor (let index = 0; index < count; index++) {\n  result.push(index * 2);\n}\nreturn result;\n`,
];

/** JSON as answers and tool calls carry it. */
export const DATA: readonly string[] = [
  `{"name":"get_weather","arguments":{"city":"Lyon","unit":"celsius","days":3}}`,
  `{"name":"search","arguments":{"query":"water mill","limit":10,"exact":true}}`,
  `{"city":"Oslo","temperature":12,"conditions":"rain","wind":{"speed":4.5,"from":"north"}}`,
  `{"title":"A short walk","tags":["river","hills"],"done":false,"owner":null}`,
  `{"id":42,"name":"The old mill","price":19.99,"items":[{"id":1,"count":2},{"id":7,"count":1}]}`,
];

/** Frequent words that the prose does not use: prompts full of them need fewer tokens. */
export const WORDS: string = `
able above accept account across act action activity actually address age agree air allow almost alone along already also although among amount
analysis animal another anything appear apply approach area argue arm around arrive art article available avoid away baby bad bag ball bank base bear
beautiful become bed behind believe benefit best beyond big bill bit black blood blue body born both box boy brother build building business buy call
camera campaign cancer card care career case cause cell center central century certain chair challenge chance character charge check choice church
citizen city claim clearly close cold collection college color common community company compare computer concern condition consider contain continue
control cost could country couple course court cover create crime culture cup current customer data daughter dead deal death debate decade decide
decision deep degree democratic describe design despite detail develop development die difference different difficult dinner direction director
discover discuss disease doctor dog door draw dream drive drop drug during each early east economic economy edge education effect effort else employee
end energy enjoy enough enter entire environment especially establish event ever evidence exactly example executive exist expect experience expert
eye face fact factor fail fall family far farm father fear federal feel few field fight figure fill film final finally financial find fine finger fire
firm fish floor fly focus follow food foot force foreign forget form former forward free friend front full fund future game general generation get girl
give glass goal gold government great green ground group grow growth guess gun guy hair half hand hang happen happy hard head health hear heart heat
heavy help her herself high him himself his history hit hold hope hospital hot hotel house however huge human hundred husband idea identify image
imagine impact important improve include increase indeed indicate individual industry information inside instead institution interest international
interview investment involve issue itself job join just keep key kid kill kind kitchen know knowledge land language large later laugh law lawyer lay
lead leader learn least leave left leg legal less letter level lie life like likely limit list listen little live local loss lot love low main maintain
major majority make man manage management many mark market marriage material matter maybe mean measure media medical meet meeting member memory mention
method might military million mind minute miss mission model modern moment money month mother mouth move movement movie Mr Mrs much must my myself
nation national natural nature near nearly necessary network news newspaper nice night none nor note notice now occur off offer office officer official
oil ok once onto operation opportunity option order organization others our out over own owner page pain painting paper parent particular partner party
pass patient pattern pay peace per perform perhaps period person phone physical pick picture piece player point police policy political politics poor
popular population position positive power practice prepare present president pressure pretty prevent price private probably problem process produce
product production professional professor project property protect prove provide public pull purpose push put quality quickly quite race radio raise
range rate rather reach real reality realize really receive recent recently recognize record red reduce reflect region relate relationship religious
remain remember remove represent require research resource respond response responsibility rest result return reveal rich right rise risk road rock
role rule safe save scene school science scientist score season seat section security seek sell send senior sense series serious serve service set
seven several shake share she shoot shot should shoulder side sign significant similar since sing single sister sit site situation six size skill skin
social society soldier someone sometimes son song soon sort source southern space speak special specific speech spend sport staff stage stand standard
state statement stay step stock stop store strategy structure student study stuff style subject success successful such suddenly suffer suggest support
sure system table talk task tax team technology television tell tend term test thank theory these thing third those thought thousand threat through
throughout throw thus today tonight top total tough toward trade traditional training travel treat treatment trial trip trouble true truth turn type
understand unit upon us use user usually value various very victim view violence visit voice vote wall want war weapon wear weight west western white
who whole whom whose wide wife will win wish within woman wonder worker world worry would writer wrong yard yeah young your yourself system assistant
token tokens model prompt server request answer message function return const string number boolean true false null object array import export
`;

/** Characters beyond ASCII that have a piece of their own; all others fall back to their bytes. */
export const LETTERS: string = 'éèäöüßçà—…’“”°';
