"""Limits of the Python front ends that are policy: where a program or a call begins to be treated otherwise. One row each, with what becomes of more. Those
of the core are in src/support/limits.def; docs/limits.md shows both (tests/lint/test_limits.py writes it). What users set themselves is an option."""

TABLE = {}   # name -> (value, what)


def limit(name, value, what):
    TABLE[name] = (value, what)
    return value


# --- torch.compile
COMPILES = limit("COMPILES", 3, "compiles per function and key: the first and two recompiles, the last of which is made general; then the escape is a graph break")
FAILURES = limit("FAILURES", 3, "attempts to compile one kind of call (key) that may end in errors of the program, and kinds that may fail for good before "
                 "one is compiled; later ones come after 3, 15, 63 ... calls that run eagerly, counted")
SHORT_ATTEMPT = limit("SHORT_ATTEMPT", 2.0, "seconds that an attempt may have taken which fails for good, for another one at the next call: a program does some things at its first call only")
KINDS = limit("KINDS", 64, "kinds of calls (keys) of one torch.compile() of a function that are compiled; calls of more run eagerly, counted")
KEY_DEPTH = limit("KEY_DEPTH", 4, "containers and objects inside each other (`cache.layers[0].keys`) whose values make a key; what lies deeper counts as a recompile when it differs")
KEY_VALUES = limit("KEY_VALUES", 2000, "values looked at in one frame for its key; so with what comes later")
TRIED_POINTS = limit("TRIED_POINTS", 512, "assignments of declared sizes that are tried one by one, where reasoning about intervals does not decide; of more nothing is concluded")
NEW_OBJECTS = limit("NEW_OBJECTS", 100000, "new objects until the collector of garbage looks through the youngest, while something is compiled; a program that wants rarer or no collections has them")
# --- call mode
GENERATORS = limit("GENERATORS", 2, "random generators among the arguments that have versions of their own; a function that gets more draws from stand-ins with their states")
KEYS = limit("KEYS", 64, "kinds of calls of a function: structures, constants among the arguments, ambient state; more run eagerly")
TABLES = limit("TABLES", 16, "states of flags, and of numbers and objects that a function reads from elsewhere; with more it goes on in replay mode")
EXACT = limit("EXACT", 8, "versions for values of numbers that are constants in the code; calls with others run eagerly")
FLOATS = limit("FLOATS", 2, "values of a float that are constants, before it becomes a run-time value")
SETTLED = limit("SETTLED", 32, "calls that no version served, before it is asked whether the function is worth recording any more")
SERVED = limit("SERVED", 4, "calls that versions must serve for each of these; with fewer the function goes on in replay mode")
REST = limit("REST", 1024, "calls that run eagerly at once where recordings were refused again and again, before one is tried anew; twice as many the next time")
WORTHWHILE = limit("WORTHWHILE", 16, "calls that justify a recording whose captured tensors are replaced later")
UNSTABLE = limit("UNSTABLE", 3, "recordings in a row that rebind state, before the function is not recorded any more")
RESULTS = limit("RESULTS", 1000, "structures of results of one entry, each of which may hold constants; calls with others go on in replay mode")
ARGUMENT_DEPTH = limit("ARGUMENT_DEPTH", 64, "containers and objects inside each other among the arguments; calls with deeper ones go on in replay mode")
ARGUMENT_PARTS = limit("ARGUMENT_PARTS", 4096, "containers and objects among the arguments of one call, which are copied at every call; calls with more go on in replay mode")
# --- what a function reads from elsewhere
PLACES = limit("PLACES", 65536, "places (globals, cells, attributes, items) that are watched for plain values; larger functions go on in replay mode")
PACKAGE_FUNCTIONS = limit("PACKAGE_FUNCTIONS", 256, "functions of installed packages that are searched for what they read; where there are more, those are that have run")
OWN_FUNCTIONS = limit("OWN_FUNCTIONS", 1024, "functions of the program's own, likewise")
VISITED = limit("VISITED", 65536, "objects and containers that are searched for what a function reads; functions that reach more go on in replay mode")
LONG = limit("LONG", 64, "items of a container in an attribute that is searched whatever its name is; a longer one where some code names it")
OBJECT_DEPTH = limit("OBJECT_DEPTH", 6, "objects of libraries in attributes of such, and containers in containers, that are watched; functions that read deeper ones go on in replay mode")
CALL_DEPTH = limit("CALL_DEPTH", 24, "functions called by functions, and objects in attributes of objects, that are searched for what they read; with deeper ones a function goes on in replay mode")
OBJECTS_OF_CLASS = limit("OBJECTS_OF_CLASS", 64, "objects of classes whose methods have run though no search meets them: what they hold is searched; with more a function goes on in replay mode")
TURNS = limit("TURNS", 32, "searches of a function for what its code reads that has run, each with what a later recording has run besides; then it goes on in replay mode")
COMPARED = limit("COMPARED", 65536, "items of a container that are looked at for what a recording has changed: that is done a few times, not at every call")
ITEMS = limit("ITEMS", 16384, "items of a container, with those of containers in it, that are compared at every call; functions that read larger ones go on in replay mode")
AFTERMATH = limit("AFTERMATH", 10000, "objects that a result without a structure refers to; where there are more the function runs once more for it")
ARRAY_BYTES = limit("ARRAY_BYTES", 262144, "bytes of a NumPy array, bytearray or StringIO that are compared at every call; functions that read larger ones go on in replay mode")
